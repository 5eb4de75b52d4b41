"""How Sphinx builds the documentation."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

from docutils import nodes  # type: ignore[import-untyped]  # docutils has no types
from pygments.lexers.special import TextLexer  # type: ignore[import-untyped]  # pygments has no types
from sphinx import addnodes
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

# Commands are copied from the pages: `--yes` must not become a dash.
smartquotes = False

# The docstrings are written for reading in the source: types stand in the signatures only.
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": "model_config"}
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"


def setup(app: Sphinx) -> None:
    """Show Mermaid drawings as source: the site works offline, and what draws them is a download."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("autodoc-process-docstring", drop_docstring_of_type, priority=300)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before napoleon's 500
    app.connect("autodoc-process-signature", show_plain_types)
    app.connect("doctree-read", show_plain_annotations)
    app.connect("env-check-consistency", check_public_names)


def drop_docstring_of_type(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """A constant without a docstring of its own has that of its type, such as `str`."""
    if what == "data" and "\n".join(lines).strip() == inspect.cleandoc(type(obj).__doc__ or "").strip():
        lines.clear()


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Napoleon takes what an attribute's docstring says before a colon for its type, unless that is empty."""
    if lines and what in ("attribute", "data", "property"):
        lines[0] = f": {lines[0]}"


def show_plain_types(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Show the types of fields without the validators of pydantic behind them."""
    return (None if signature is None else plain(signature)), (None if returns is None else plain(returns))


def show_plain_annotations(app: Sphinx, doctree: nodes.document) -> None:
    """Do the same for attributes, whose annotations are taken from the source."""
    for annotation in doctree.findall(addnodes.desc_annotation):
        text = annotation.astext()
        if text.startswith(": ") and plain(text) != text:
            annotation.children = [nodes.Text(plain(text))]


ALIASES = {": Text": ": str", ": Raw": ": dict[str, Any]"}
"""Annotations of the source that name a type which only `ace.outputs` has."""


def plain(text: str) -> str:
    """Replace `Annotated[X, ...]` and `SkipJsonSchema[X]` by X."""
    for wrapper in ("Annotated[", "SkipJsonSchema["):
        while (found := text.find(wrapper)) >= 0:
            start = found + len(wrapper)
            inner, end = first_argument(text, start)
            begin = text.rfind("~", 0, found) if text[:found].endswith(("~typing.", "typing.")) else found
            text = text[: max(begin, 0)] + inner + text[end:]
    return ALIASES.get(text, re.sub(r"~(\w+\.)+", "", text).replace("<factory>", "..."))


def first_argument(text: str, start: int) -> tuple[str, int]:
    """The text up to the first comma of its level, and the place behind the bracket that closes the level."""
    depth, first = 0, -1
    for place in range(start, len(text)):
        character = text[place]
        if character in "[({":
            depth += 1
        elif character in "])}":
            if depth == 0:
                return text[start : place if first < 0 else first], place + 1
            depth -= 1
        elif character == "," and depth == 0 and first < 0:
            first = place
    raise ValueError(f"no bracket closes the annotation in {text!r}")


def check_public_names(app: Sphinx, environment: BuildEnvironment) -> None:
    """Warn of public names that are on no page of the reference."""
    python = environment.domains.python_domain
    kinds = ("class", "exception", "function", "data")
    shown = {name.rpartition(".")[2] for name, entry in python.objects.items() if entry.objtype in kinds}
    for module in python.modules:
        for name in getattr(importlib.import_module(module), "__all__", []):
            if name not in shown and f"{module}.{name}" not in python.objects:
                getLogger(__name__).warning("the reference does not show %s.%s", module, name)
