"""Writes the drawing of the layers into `explanation/architecture.md`: `python -m docs.layer_drawing`.

The order comes from the contract in the root `pyproject.toml` that `make contracts` checks, and what a layer is from
the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SOURCES = ROOT / "ace-core" / "src" / "ace"
DRAWING = re.compile(r"(?<=<!-- drawing: begin -->\n).*(?=<!-- drawing: end -->)", re.DOTALL)
INNER_WIDTH = 60


def layers() -> list[list[str]]:
    """The layers of `ace` from top to bottom, each with its public packages."""
    return [[name for name in re.split(r" [|:] ", layer) if not name.startswith("_")] for layer in _contract()]


def separators() -> list[str]:
    """What is between the packages of each layer: colons if they may import each other."""
    return ["   :   " if " : " in layer else "   |   " for layer in _contract()]


def _contract() -> list[str]:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [contract] = [
        candidate
        for candidate in linter["contracts"]
        if candidate["type"] == "layers" and candidate["containers"] == ["ace"]
    ]
    return list(contract["layers"])


def integrations() -> list[str]:
    """The import packages that stand on `ace`."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return [name for name in linter["root_packages"] if name != "ace"]


def first_sentence(package: str) -> str:
    """What a package says of itself."""
    folder, module = SOURCES / package / "__init__.py", SOURCES / f"{package}.py"
    source = folder if folder.exists() else module
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.partition("\n\n")[0].split())
    return f"{sentence.partition('. ')[0].rstrip('.')}."


def drawing() -> str:
    """The boxes, and below them a table that says what is in each."""
    boxes = [
        box(integrations(), between="  "),
        "through public names, and by the hooks of plugins".center(INNER_WIDTH).rstrip(),
    ]
    line = "─" * (INNER_WIDTH - 2)
    names = [
        "\n".join(f"│ {text.ljust(INNER_WIDTH - 4)} │" for text in wrapped(layer, between))
        for layer, between in zip(layers(), separators(), strict=True)
    ]
    boxes += [f"┌{line}┐", f"\n├{line}┤\n".join(names), f"└{line}┘"]
    rows = [f"| `ace.{name}` | {first_sentence(name)} |" for layer in layers() for name in layer]
    return "\n".join(["```text", *boxes, "```", "", "| package | what it is |", "|---|---|", *rows, ""])


def wrapped(names: list[str], between: str) -> list[str]:
    """Names in as many lines of the drawing as they need."""
    lines = [""]
    for name in names:
        longer = f"{lines[-1]}{between}{name}" if lines[-1] else name
        if len(longer) > INNER_WIDTH - 4:
            lines.append(name)
        else:
            lines[-1] = longer
    return lines


def box(names: list[str], between: str) -> str:
    """A box with names in it."""
    edge = "─" * (INNER_WIDTH - 2)
    lines = [f"│ {text.center(INNER_WIDTH - 4)} │" for text in wrapped(names, between)]
    return "\n".join([f"┌{edge}┐", *lines, f"└{edge}┘"])


def page() -> str:
    """The page with the drawing that the sources ask for."""
    text = PAGE.read_text(encoding="utf-8")
    drawn, count = DRAWING.subn(lambda _: drawing(), text)
    if count != 1:
        raise ValueError(f"{PAGE} must have one place for the drawing, between its two marks")
    return drawn


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
