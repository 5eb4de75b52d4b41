"""How Sphinx builds the documentation."""

import importlib
import tomllib
from pathlib import Path

from pygments.lexers.special import TextLexer  # type: ignore[import-untyped]  # pygments has no types
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.logging import getLogger

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
maximum_signature_line_length = 90
napoleon_google_docstring = True
napoleon_numpy_docstring = False

# Single backquotes hold code in our docstrings, as in Markdown.
default_role = "code"

html_theme = "furo"
html_title = f"ACE {release}"
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Show Mermaid drawings as source: the site works offline, and what draws them is a download."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before napoleon's 500
    app.connect("env-check-consistency", check_public_names)


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Napoleon takes what an attribute's docstring says before a colon for its type, unless that is empty."""
    if lines and what in ("attribute", "data", "property"):
        lines[0] = f": {lines[0]}"


def check_public_names(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of public names that stand on no page of the reference."""
    python = environment.domains.python_domain
    kinds = ("class", "exception", "function", "data")
    shown = {name.rpartition(".")[2] for name, entry in python.objects.items() if entry.objtype in kinds}
    for module in python.modules:
        for name in getattr(importlib.import_module(module), "__all__", []):
            if name not in shown and f"{module}.{name}" not in python.objects:
                getLogger(__name__).warning("the reference does not show %s.%s", module, name)
