"""Build the site and look at it: every page, desktop and phone, light and dark, in headless Chromium.

Run as ``python docs/check_site.py``, with the extra ``docs`` installed and a Chromium or Chrome on the
path (or named by ``--browser``). The site is built with warnings as errors, served on the loopback
interface, and each page is opened at two widths, by day and by night, while requests to any other host
are refused. The check fails on

- an error or a warning on the console, a script error, a request that failed or left the machine,
- an image that did not load,
- an equation without MathML, one of no size, or LaTeX left in the text,
- a page wider than the window,
- in the dark, text or pictures that shine: text too close to its background, an image still white;
  by day, a picture turned dark,
- an equation that has no room in its column on a desktop,
- a search that finds nothing,
- a link between pages, or to a place on one, that leads nowhere.

The report that ``qhreg fit --report`` writes is looked at in the same way, and as it is printed.

Screenshots go to ``docs/_build/screenshots``.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import functools
import http.server
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import websockets

HERE = Path(__file__).resolve().parent
BUILD = HERE / "_build" / "html"
SCREENSHOTS = HERE / "_build" / "screenshots"
REPORT = HERE / "_build" / "report"
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
QUERY = "kappa"
"""What the search page is asked for."""
LEAST_CONTRAST = 3.0
"""Least ratio of luminances between text and what is behind it (WCAG asks 3 of large text)."""
TALLEST = 5000
"""Pixels of a page that a screenshot shows at most."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

LOOK = r"""
(() => {
  const parts = colour => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return parts(getComputedStyle(document.body).backgroundColor);
  };
  const contrast = e => {
    const [a, b] = [parts(getComputedStyle(e).color), behind(e)].map(luminance);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const speaks = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const shines = image => {
    if (!image.naturalWidth || getComputedStyle(image).filter !== 'none') return false;
    const canvas = Object.assign(document.createElement('canvas'), {width: 1, height: 1});
    const brush = canvas.getContext('2d');
    brush.drawImage(image, 0, 0, 1, 1, 0, 0, 1, 1);
    return Math.min(...brush.getImageData(0, 0, 1, 1).data) > 230;
  };
  const text = document.body.innerText;
  const maths = [...document.querySelectorAll('math')];
  const visible = e => e.closest('details:not([open])') === null;
  return JSON.stringify({
    images: [...document.images].filter(i => i.checkVisibility())
      .filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.src),
    n_math: maths.length,
    empty: maths.filter(m => visible(m) && !(m.getBoundingClientRect().width > 1
      && m.getBoundingClientRect().height > 1)).map(m => m.textContent.slice(0, 60)),
    foreign: maths.filter(m => m.namespaceURI !== 'http://www.w3.org/1998/Math/MathML'
      || getComputedStyle(m).display.indexOf('math') < 0).length,
    bare: [...document.querySelectorAll('div.math, span.math')]
      .filter(e => !e.querySelector('math')).map(e => e.textContent.slice(0, 60)),
    latex: [...document.querySelectorAll('article p, article li, article td, article dd')]
      .filter(e => { const c = e.cloneNode(true);
        c.querySelectorAll('code, pre, math').forEach(x => x.remove());
        return /\$[^$]+\$|\\(frac|tau|kappa|sigma|beta|sum|log)\b|:math:`|``/.test(c.textContent); })
      .map(e => e.textContent.slice(0, 80)),
    width: document.documentElement.scrollWidth,
    height: document.documentElement.scrollHeight,
    ids: [...document.querySelectorAll('[id]')].map(e => e.id),
    links: [...document.querySelectorAll('a[href]')].map(a => a.href),
    faint: [...document.querySelectorAll('article *')]
      .filter(e => speaks(e) && e.checkVisibility() && contrast(e) < LEAST_CONTRAST)
      .map(e => `${e.textContent.trim().slice(0, 40)} (${contrast(e).toFixed(1)})`),
    turned: [...document.images]
      .filter(i => i.checkVisibility() && getComputedStyle(i).filter !== 'none').map(i => i.src),
    cut: [...document.querySelectorAll('div.math > .equation')]
      .filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => `${e.parentElement.id || e.textContent.slice(0, 40)}`),
    shining: [...document.images].filter(i => i.checkVisibility() && shines(i)).map(i => i.src),
    found: document.querySelectorAll('ul.search li').length,
    title: document.title,
    words: text.length,
  });
})()
""".replace("LEAST_CONTRAST", str(LEAST_CONTRAST))


@dataclass
class Visit:
    """What one visit to a page showed."""

    page: str
    width: str
    theme: str
    faults: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    equations: int = 0


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of the loopback interface."""
    handler = functools.partial(Silent, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def browsing(command: str) -> Iterator[str]:
    """Run the browser and give the address of its debugger."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        arguments = [
            command,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            # nothing but this machine can be reached
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield _debugger(Path(profile) / "DevToolsActivePort", process)
        finally:
            process.terminate()
            process.wait(timeout=20)


def _debugger(file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        lines = file.read_text().split() if file.exists() else []
        if lines:
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list") as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            if pages:
                return str(pages[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise SystemExit("the browser did not start")


class Tab:
    """One tab of the browser, spoken to in the DevTools protocol."""

    def __init__(self, socket) -> None:
        self.socket = socket
        self.counter = 0
        self.events: list[dict] = []

    async def call(self, method: str, **parameters):
        self.counter += 1
        number = self.counter
        await self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.recv(), 60))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    async def wait_for(self, event: str) -> None:
        while not any(message.get("method") == event for message in self.events):
            self.events.append(json.loads(await asyncio.wait_for(self.socket.recv(), 60)))

    async def value(self, expression: str):
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        return answer["result"].get("value")


def event_faults(events: list[dict], site: str) -> list[str]:
    """Return what the console and the network complained about."""
    faults = []
    for message in events:
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            said = " ".join(str(arg.get("value", arg.get("description"))) for arg in p["args"])
            faults.append(f"console {p['type']}: {said}")
        elif method == "Runtime.exceptionThrown":
            faults.append(f"script error: {p['exceptionDetails'].get('text')}")
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            faults.append(f"log {p['entry']['level']}: {p['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            address = p["request"]["url"]
            if not address.startswith((site, "data:", "blob:", "about:")):
                faults.append(f"request to another place: {address}")
        elif method == "Network.responseReceived" and p["response"]["status"] >= 400:
            faults.append(f"{p['response']['status']}: {p['response']['url']}")
        elif method == "Network.loadingFailed" and not p.get("canceled"):
            faults.append(f"loading failed: {p['errorText']}")
    return faults


def page_faults(seen: dict, pixels: int, theme: str) -> list[str]:
    """Return what is wrong with the page itself in a window of this width."""
    faults = [f"image missing: {source}" for source in seen["images"]]
    faults += [f"equation has no size: {text}" for text in seen["empty"]]
    faults += [f"equation without MathML: {text}" for text in seen["bare"]]
    faults += [f"LaTeX or markup left in the text: {text}" for text in seen["latex"]]
    faults += [f"text hard to read: {text}" for text in seen["faint"]]
    if theme == "dark":
        faults += [f"white picture in the dark: {source}" for source in seen["shining"]]
    else:
        faults += [f"dark picture by day: {source}" for source in seen["turned"]]
    if pixels == WIDTHS["desktop"][0]:
        faults += [f"equation wider than its column: {text}" for text in seen["cut"]]
    if seen["foreign"]:
        faults.append(f"{seen['foreign']} equations are not drawn as MathML")
    # a phone's own idea of its width grows with what it shows
    if seen["width"] > pixels + 1:
        faults.append(f"wider than the window by {seen['width'] - pixels} pixels")
    if not seen["title"] or seen["words"] < 20:
        faults.append("the page is empty")
    return faults


async def open_page(tab: Tab, address: str, width: str, theme: str) -> dict:
    """Open a page at one width in one theme and return what is seen."""
    pixels, height = WIDTHS[width]
    tab.events = []
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=pixels,
        height=height,
        deviceScaleFactor=1,
        mobile=width == "phone",
    )
    choice = {"name": "prefers-color-scheme", "value": theme}
    await tab.call("Emulation.setEmulatedMedia", features=[choice])
    await tab.call("Page.navigate", url=address)
    await tab.wait_for("Page.loadEventFired")
    await tab.value(
        "document.querySelectorAll('img[loading=lazy]').forEach(i => i.loading = 'eager');"
        "document.fonts.ready.then(() => new Promise(r => setTimeout(r, 60)))"
    )
    return json.loads(await tab.value(LOOK))


async def take_picture(tab: Tab, path: Path, pixels: int, height: int) -> None:
    """Save what a page shows, down to `TALLEST`."""
    clip = {"x": 0, "y": 0, "width": pixels, "height": min(height, TALLEST), "scale": 1}
    picture = await tab.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(picture["data"]))


async def visit(tab: Tab, site: str, page: str, width: str, theme: str) -> Visit:
    """Open a page at one width in one theme, look at it and take its picture."""
    seen = await open_page(tab, f"{site}/{page}", width, theme)
    pixels, _ = WIDTHS[width]
    made = Visit(
        page, width, theme, ids=set(seen["ids"]), links=seen["links"], equations=seen["n_math"]
    )
    made.faults = event_faults(tab.events, site) + page_faults(seen, pixels, theme)
    name = page.removesuffix(".html").replace("/", "__")
    await take_picture(
        tab, SCREENSHOTS / f"{width}_{theme}" / f"{name}.png", pixels, seen["height"]
    )
    return made


async def search_faults(tab: Tab, site: str) -> list[str]:
    """Ask the search page a question that has answers."""
    await open_page(tab, f"{site}/search.html?q={QUERY}", "desktop", "light")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        seen = json.loads(await tab.value(LOOK))
        if seen["found"]:
            await take_picture(tab, SCREENSHOTS / "search_results.png", 1280, seen["height"])
            return [f"search: {fault}" for fault in event_faults(tab.events, site)]
        await asyncio.sleep(0.2)
    return [f"search: {QUERY!r} is found nowhere"]


async def report_faults(tab: Tab, site: str) -> list[str]:
    """Look at the report of a fit at every width, and as it is printed."""
    faults = []
    await tab.call("Page.navigate", url="about:blank")  # stops what the search page still asks for
    await asyncio.sleep(0.5)
    for width, (pixels, _) in WIDTHS.items():
        seen = await open_page(tab, f"{site}/report.html", width, "light")
        found = event_faults(tab.events, site) + page_faults(seen, pixels, "light")
        faults += [f"report ({width}): {fault}" for fault in found]
        await take_picture(tab, SCREENSHOTS / f"report_{width}.png", pixels, seen["height"])
    sheet = await tab.call("Page.printToPDF", printBackground=True)
    (SCREENSHOTS / "report.pdf").write_bytes(base64.b64decode(sheet["data"]))
    return faults


async def visit_all(
    address: str, site: str, pages: list[str], report: str
) -> tuple[list[Visit], list[str]]:
    """Visit every page at every width in every theme; return the faults of search and report, too."""
    async with websockets.connect(address, max_size=None) as socket:
        tab = Tab(socket)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.call(f"{domain}.enable")
        visits = [
            await visit(tab, site, page, width, theme)
            for theme in THEMES
            for width in WIDTHS
            for page in pages
        ]
        return visits, await search_faults(tab, site) + await report_faults(tab, report)


def link_faults(visits: list[Visit], site: str) -> list[str]:
    """Return the links inside the site that lead nowhere."""
    places = {made.page: made.ids for made in visits}
    faults = set()
    for made in visits:
        for link in made.links:
            if not link.startswith(site):
                continue
            target, _, place = link.removeprefix(site + "/").partition("#")
            target = urllib.parse.unquote(target) or "index.html"
            if target not in places:
                if not (BUILD / target).is_file():
                    faults.add(f"{made.page}: no page {target}")
            elif place and urllib.parse.unquote(place) not in places[target]:
                faults.add(f"{made.page}: no place #{place} on {target}")
    return sorted(faults)


def build() -> None:
    """Build the site; warnings are errors."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    subprocess.run([*command, str(HERE), str(BUILD)], check=True)


def write_report() -> None:
    """Write the report that the site is visited with, of the fit on its landing page."""
    sys.path.insert(0, str(HERE.parent))
    import numpy as np
    import statsmodels.api as sm

    from qhreg.cli.report import html_report
    from qhreg.formula.api import quantile_huber

    formula = "np.sqrt(foodexp) ~ np.sqrt(income)"
    data = sm.datasets.engel.load_pandas().data
    fit = quantile_huber(formula, data, kappa=4.0, eval_env={"np": np}).fit()
    REPORT.mkdir(parents=True, exist_ok=True)
    (REPORT / "report.html").write_text(html_report(fit, title=formula), encoding="utf-8")


def main() -> int:
    """Build, visit, report; return the number for the shell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", help="command of a Chromium or Chrome")
    parser.add_argument("--no-build", action="store_true", help="look at the site as it is")
    parser.add_argument("--only", default="", help="visit pages whose name contains this")
    options = parser.parse_args()
    browser = options.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        parser.error("no Chromium or Chrome found: install one or pass --browser")
    if not options.no_build:
        build()
    pages = sorted(str(path.relative_to(BUILD)) for path in BUILD.rglob("*.html"))
    pages = [page for page in pages if options.only in page and not page.startswith("_")]
    write_report()
    with served(BUILD) as site, browsing(browser) as address:
        visits, faults = asyncio.run(visit_all(address, site, pages, REPORT.as_uri()))
        faults += [
            f"{made.page} ({made.width}, {made.theme}): {fault}"
            for made in visits
            for fault in made.faults
        ]
        faults += [] if options.only else link_faults(visits, site)
    equations = sum(made.equations for made in visits) * len(pages) // max(1, len(visits))
    print("\n".join(faults))
    print(
        f"{len(pages)} pages at {len(WIDTHS)} widths in {len(THEMES)} themes, {equations} equations, "
        f"{len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
