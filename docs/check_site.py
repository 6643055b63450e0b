"""Build the site and look at it: every page, desktop and phone, in headless Chromium.

Run as ``python docs/check_site.py``, with the extra ``docs`` installed and a Chromium or Chrome on the
path (or named by ``--browser``). The site is built with warnings as errors, served on the loopback
interface, and each page is opened at two widths while requests to any other host are refused. The check
fails on

- an error or a warning on the console, a script error, a request that failed or left the machine,
- an image that did not load,
- an equation without MathML, one of no size, or LaTeX left in the text,
- a page wider than the window,
- a link between pages, or to a place on one, that leads nowhere.

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
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
TALLEST = 5000
"""Pixels of a page that a screenshot shows at most."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

LOOK = r"""
(() => {
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
    title: document.title,
    words: text.length,
  });
})()
"""


@dataclass
class Visit:
    """What one visit to a page showed."""

    page: str
    width: str
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


def page_faults(seen: dict, pixels: int) -> list[str]:
    """Return what is wrong with the page itself in a window of this width."""
    faults = [f"image missing: {source}" for source in seen["images"]]
    faults += [f"equation has no size: {text}" for text in seen["empty"]]
    faults += [f"equation without MathML: {text}" for text in seen["bare"]]
    faults += [f"LaTeX or markup left in the text: {text}" for text in seen["latex"]]
    if seen["foreign"]:
        faults.append(f"{seen['foreign']} equations are not drawn as MathML")
    # a phone's own idea of its width grows with what it shows
    if seen["width"] > pixels + 1:
        faults.append(f"wider than the window by {seen['width'] - pixels} pixels")
    if not seen["title"] or seen["words"] < 20:
        faults.append("the page is empty")
    return faults


async def visit(tab: Tab, site: str, page: str, width: str) -> Visit:
    """Open a page at one width, look at it and take its picture."""
    pixels, height = WIDTHS[width]
    tab.events = []
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=pixels,
        height=height,
        deviceScaleFactor=1,
        mobile=width == "phone",
    )
    await tab.call("Page.navigate", url=f"{site}/{page}")
    await tab.wait_for("Page.loadEventFired")
    await tab.value(
        "document.querySelectorAll('img[loading=lazy]').forEach(i => i.loading = 'eager');"
        "document.fonts.ready.then(() => new Promise(r => setTimeout(r, 60)))"
    )
    seen = json.loads(await tab.value(LOOK))
    made = Visit(page, width, ids=set(seen["ids"]), links=seen["links"], equations=seen["n_math"])
    made.faults = event_faults(tab.events, site) + page_faults(seen, pixels)
    clip = {"x": 0, "y": 0, "width": pixels, "height": min(seen["height"], TALLEST), "scale": 1}
    picture = await tab.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
    name = page.removesuffix(".html").replace("/", "__")
    (SCREENSHOTS / width / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))
    return made


async def visit_all(address: str, site: str, pages: list[str]) -> list[Visit]:
    """Visit every page at every width."""
    async with websockets.connect(address, max_size=None) as socket:
        tab = Tab(socket)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await tab.call(f"{domain}.enable")
        return [await visit(tab, site, page, width) for width in WIDTHS for page in pages]


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
    for width in WIDTHS:
        (SCREENSHOTS / width).mkdir(parents=True, exist_ok=True)
    pages = sorted(str(path.relative_to(BUILD)) for path in BUILD.rglob("*.html"))
    pages = [page for page in pages if options.only in page and not page.startswith("_")]
    with served(BUILD) as site, browsing(browser) as address:
        visits = asyncio.run(visit_all(address, site, pages))
        faults = [
            f"{made.page} ({made.width}): {fault}" for made in visits for fault in made.faults
        ]
        faults += [] if options.only else link_faults(visits, site)
    equations = sum(made.equations for made in visits) // len(WIDTHS)
    print("\n".join(faults))
    print(
        f"{len(pages)} pages at {len(WIDTHS)} widths, {equations} equations, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
