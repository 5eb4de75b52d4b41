"""How Sphinx builds the documentation."""

import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer  # type: ignore[import-untyped]  # pygments has no types
from sphinx.application import Sphinx

CORE = Path(__file__).parents[1] / "ace-core" / "pyproject.toml"

project = "ACE"
author = "The ACE authors"
html_show_copyright = False
release = tomllib.loads(CORE.read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

# The docstrings are written for reading in the source: types stand in the signatures only.
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"ACE {release}"
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Show Mermaid drawings as source: the site works offline, and what draws them is a download."""
    app.add_lexer("mermaid", TextLexer)
