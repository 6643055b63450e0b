r"""Equations without scripts: LaTeX becomes MathML when the site is built, and QH numbers link.

Browsers draw MathML themselves, so that the site needs no script and no network. Not every machine has
a font with the shapes of large roots and braces: the site brings STIX Two Math (OFL), taken from the
package ziamath and cut down to what equations use.
docutils converts; what it does not know of LaTeX is rewritten first. A ``\tag{QH-n}`` becomes the
number at the right of its equation and the target of every (QH-n) in the text and the docstrings.
"""

from __future__ import annotations

import importlib.util
import logging as stdlib_logging
import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)

TAG = re.compile(r"\\tag\{([^}]*)\}")
NUMBER = re.compile(r"\bQH-\d+\b")
EQUATIONS = "math"
"""The page with the numbered equations."""

FONT_RANGES = (
    (0x20, 0x17F),  # Latin
    (0x2B0, 0x3FF),  # accents, Greek
    (0x2000, 0x20FF),  # punctuation, primes
    (0x2100, 0x214F),  # letterlike
    (0x2190, 0x22FF),  # arrows, operators
    (0x2308, 0x230B),  # floors
    (0x239B, 0x23B7),  # pieces of large delimiters
    (0x27E6, 0x27EF),  # angle brackets
    (0x2A00, 0x2AFF),  # further operators
    (0x1D400, 0x1D7FF),  # mathematical letters
)
"""Characters that equations use."""

_OPENING = re.compile(r"\\(big|Big|bigg|Bigg)(?=\s*(?:[(\[|]|\\\{))")
_CLOSING = re.compile(r"\\(big|Big|bigg|Bigg)(?=\s*(?:[)\]]|\\\}))")
_ENVIRONMENT = re.compile(r"\\begin\{(\w+)\}.*?\\end\{\1\}", flags=re.DOTALL)
_LOG = re.compile(r"\\log(?:\s+(?=[A-Za-z])|\s*(?=\\(?![bB]ig)[A-Za-z]))")
_BEFORE_LOG = re.compile(r"(?<=[A-Za-z0-9)}])\s*(?=\\log\b)")
_ROW_GAP = re.compile(r"\\\\\[[^\]]*\]")


def prepared(latex: str) -> str:
    """Return LaTeX in the words that docutils knows."""
    latex = _CLOSING.sub(r"\\\1r", _OPENING.sub(r"\\\1l", latex))
    # docutils sets no space around a function's name
    latex = _BEFORE_LOG.sub(r"\\,", _LOG.sub(r"\\log\\,", latex))
    return _ROW_GAP.sub(r"\\\\", TAG.sub("", latex)).strip()


def to_mathml(latex: str, *, block: bool) -> str:
    r"""Return the equation as a math element, with aligned lines where it has ``&`` or ``\\``."""
    body = re.sub(r"\n\s*\n", r"\\\\ ", prepared(latex))
    outside = _ENVIRONMENT.sub("", body)
    if block and ("&" in outside or "\\\\" in outside):
        body = rf"\begin{{aligned}}{body}\end{{aligned}}"
    return str(tex2mathml(body, as_block=block))


def _converted(node: nodes.Element, *, block: bool) -> str:
    try:
        return to_mathml(node.astext(), block=block)
    except (MathError, AttributeError) as error:  # docutils is not strict about its own errors
        LOGGER.warning("equation %r: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def visit_inline(translator, node) -> None:
    translator.body.append(_converted(node, block=False))
    raise nodes.SkipNode


def visit_block(translator, node) -> None:
    tag = TAG.search(node.astext())
    mark = f' id="{tag[1]}"' if tag else ""
    number = f'<span class="number">({tag[1]})</span>' if tag else ""
    equation = _converted(node, block=True)
    translator.body.append(
        f'<div class="math"{mark}><div class="equation">{equation}</div>{number}</div>\n'
    )
    raise nodes.SkipNode


class LinkNumbers(SphinxPostTransform):
    """Turn each QH-n of the text into a link to the equation."""

    default_priority = 500

    def run(self, **_) -> None:
        if self.app.builder.format != "html":
            return
        builder, here = self.app.builder, self.env.docname
        page = "" if here == EQUATIONS else builder.get_relative_uri(here, EQUATIONS)
        known = set(TAG.findall((self.env.srcdir / f"{EQUATIONS}.md").read_text("utf-8")))
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, (nodes.math, nodes.math_block, nodes.literal_block)):
                continue
            if isinstance(text.parent, (nodes.title, nodes.reference)):
                continue
            pieces = self.pieces(text.astext(), page, known)
            if len(pieces) > 1 or not isinstance(pieces[0], nodes.Text):
                text.parent.replace(text, pieces)

    def pieces(self, text: str, page: str, known: set[str]) -> list[nodes.Node]:
        made: list[nodes.Node] = []
        last = 0
        for match in NUMBER.finditer(text):
            if match[0] not in known:
                LOGGER.warning("there is no equation %s", match[0], location=self.env.docname)
                continue
            made += [nodes.Text(text[last : match.start()])] if match.start() > last else []
            made.append(nodes.reference("", match[0], refuri=f"{page}#{match[0]}", internal=True))
            last = match.end()
        if last < len(text) or not made:
            made.append(nodes.Text(text[last:]))
        return made


def cut_font(app: Sphinx) -> None:
    """Write the part of the font that equations use, once."""
    made = Path(app.srcdir) / "_static" / "generated" / "math.woff"
    if made.exists():
        return
    made.parent.mkdir(parents=True, exist_ok=True)
    package = importlib.util.find_spec("ziamath")
    source = Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"
    # fontTools tells every glyph it keeps
    stdlib_logging.getLogger("fontTools").setLevel(stdlib_logging.WARNING)
    options = subset.Options(flavor="woff", layout_features=["ssty"], notdef_outline=True)
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[c for low, high in FONT_RANGES for c in range(low, high + 1)])
    cutter.subset(font)
    subset.save_font(font, str(made), options)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.add_post_transform(LinkNumbers)
    app.connect("builder-inited", cut_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
