"""Docstrings document existing arguments: the names under `Args:` are parameters, and sections have their own lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.layer_drawing import ROOT
from tests.workspace.project import distributions

SECTIONS = ("Args:", "Returns:", "Raises:", "Yields:", "Example:")
MISPLACED = re.compile(rf"\S +({'|'.join(SECTIONS)}) \S")
DOCUMENTED = re.compile(r"^ {4}(\*{0,2}\w+): \S", re.MULTILINE)

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def sources() -> list[Path]:
    return [path for folder in distributions() for path in sorted((folder / "src").rglob("*.py"))]


def argument_section(docstring: str) -> str:
    """Return the lines of the section `Args:`, indented by at least four blanks."""
    found = re.search(r"^Args:\n((?: {4}.*\n?|\n(?= {4}))+)", docstring, re.MULTILINE)
    return found[1] if found is not None else ""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = function.args
    names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    if given.vararg is not None:
        names |= {f"*{given.vararg.arg}", given.vararg.arg}  # the help of a command shows it without the star
    return names if given.kwarg is None else names | {f"**{given.kwarg.arg}"}


def accepted_names(node: Documented) -> set[str] | None:
    """Return the names that `Args:` may have; None for a class whose constructor is inherited."""
    if not isinstance(node, ast.ClassDef):
        return parameters(node)
    own = [
        statement
        for statement in node.body
        if isinstance(statement, ast.FunctionDef) and statement.name in ("__init__", "__new__")
    ]
    fields = {
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    return set().union(*map(parameters, own), fields) if own or fields else None


def problems(source: str) -> Iterator[str]:
    """Yield the names of documented arguments that do not exist, and sections in the middle of a paragraph."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, Documented):
            continue
        docstring = ast.get_docstring(node) or ""
        yield from (f"{node.name}: {found[1]} is not on a line of its own" for found in MISPLACED.finditer(docstring))
        accepted = accepted_names(node)
        if accepted is not None:
            named = DOCUMENTED.findall(argument_section(docstring))
            yield from (f"{node.name}: there is no argument {name}" for name in named if name not in accepted)


def test_documented_arguments_exist() -> None:
    assert [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in sources()
        for problem in problems(path.read_text(encoding="utf-8"))
    ] == []


def test_a_stale_argument_and_a_misplaced_section_are_found() -> None:
    stale = 'def greet(name):\n    """Greet.\n\n    Args:\n        name: Who.\n        title: Gone.\n    """\n'
    assert list(problems(stale)) == ["greet: there is no argument title"]
    misplaced = 'def greet(name):\n    """Greet a person.  Args: name: The name."""\n'
    assert list(problems(misplaced)) == ["greet: Args: is not on a line of its own"]
