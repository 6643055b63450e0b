"""Configuration of the documentation: ``python -m sphinx -W -b html docs docs/_build/html``."""

import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_extensions"), str(HERE)]
# the kernels that run the notebooks see this copy of the package, too
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])

from qhreg import __version__  # noqa: E402

project = "qhreg"
author = "The qhreg developers"
copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "equations",
    "module_map",
    "pictures",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_extensions", "_templates", "**.ipynb_checkpoints"]
nitpicky = False

# --- pages ---
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300

# --- API ---
autosummary_generate = True
# pages of names that are gone would be left over from an earlier build
PAGES = (HERE / "api.md").read_text() + (HERE / "inner.md").read_text()
LISTED = set(re.findall(r"^   (qhreg[.\w]+)$", PAGES, flags=re.MULTILINE))
for page in (HERE / "generated" / "api").glob("*.rst"):
    if page.stem not in LISTED:
        page.unlink()
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_use_plots = False

# --- HTML ---
html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "qhreg"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["qhreg.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#a33a26", "color-brand-content": "#a33a26"},
    "dark_css_variables": {"color-brand-primary": "#f0876f", "color-brand-content": "#f0876f"},
}


def escape_trailing_underscores(app, what, name, obj, options, lines):
    """Keep fitted attributes, whose names end in an underscore, from being read as references."""
    lines[:] = [re.sub(r"(?<=[a-z])_(?=[,)])", r"\\_", line) for line in lines]


def skip_members_of_others(app, what, name, obj, skip, options):
    """Document what our own modules define, not what statsmodels and scikit-learn hand down."""
    made = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    owner = getattr(made, "__objclass__", made)
    module = getattr(owner, "__module__", None)
    return True if module and module.partition(".")[0] != "qhreg" else None


def drop_patterns_without_pages(app, docname, source):
    """Leave patterns that match no page out of the contents: Sphinx would warn of each."""
    if docname == "index":
        lines = source[0].splitlines()
        patterns = {line for line in lines if re.fullmatch(r"[\w/]+\*", line)}
        empty = {pattern for pattern in patterns if not any(HERE.glob(f"{pattern}.[mi][dp]*"))}
        source[0] = "\n".join(line for line in lines if line not in empty) + "\n"


def setup(app):
    app.connect("autodoc-skip-member", skip_members_of_others)
    app.connect("source-read", drop_patterns_without_pages)
    # before numpydoc, which takes the docstring apart
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)
