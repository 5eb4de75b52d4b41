"""Fills the template's files in and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING

from ace.cli.plugin_template.naming import PluginNames

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["plugin_files", "write_plugin"]

_ENDING = ".template"


def plugin_files(names: PluginNames) -> dict[PurePosixPath, str]:
    """Return the files of a new plugin, by their path in its folder.

    Args:
        names: Its names.

    Example:
        >>> from ace.cli.plugin_template import names_of_plugin
        >>> print(*plugin_files(names_of_plugin("acme")), sep="\\n")
        README.md
        pyproject.toml
        src/ace_acme/__init__.py
        src/ace_acme/execute.py
        src/ace_acme/plugin.py
        src/ace_acme/py.typed
        src/ace_acme/result.py
        src/ace_acme/to_trace.py
        tests/test_conformance.py
    """
    found = _templates(resources.files("ace.cli.plugin_template") / "files", PurePosixPath())
    filled = {
        PurePosixPath(*(names.package if part == "package" else part for part in path.parts)): Template(text)
        for path, text in found
    }
    return {path: filled[path].substitute(asdict(names)) for path in sorted(filled)}


def write_plugin(names: PluginNames, folder: Path) -> list[Path]:
    """Write the files of a new plugin.

    Args:
        names: Its names.
        folder: The folder to make for it; those above it are made too.

    Returns:
        The files.

    Raises:
        FileExistsError: The folder is there already; nothing was written.
    """
    folder.mkdir(parents=True)
    written = []
    for path, text in plugin_files(names).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _templates(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, place / entry.name)
        elif entry.name.endswith(_ENDING):
            yield place / entry.name.removesuffix(_ENDING), entry.read_text(encoding="utf-8")
