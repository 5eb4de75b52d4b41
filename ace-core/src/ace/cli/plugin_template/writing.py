"""Fills the template's files in and writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING, Final

from ace.cli.plugin_template.naming import PluginNames

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["EXTRAS", "plugin_files", "write_plugin"]

_ENDING = ".template"
_PLUGIN_MODULE = "plugin.py"
_TEST_MODULE = "test_conformance.py"

EXTRAS: Final = {
    "command": ("CommandSpec", "CommandConformance"),
    "observer": ("ObserverSpec", "ObserverConformance"),
    "runner": ("RunnerSpec", None),
}
"""What a plugin can have beside its two steps, each with its spec and its suite of the kit."""


def plugin_files(names: PluginNames, extras: Collection[str] = ()) -> dict[PurePosixPath, str]:
    """Return the files of a new plugin, by their path in its folder.

    Args:
        names: Its names.
        extras: What it has beside its two steps, of `EXTRAS`.

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
    chosen = [extra for extra in EXTRAS if extra in extras]
    specs = {"ExecuteStepSpec", "TraceConverterSpec", *(EXTRAS[extra][0] for extra in chosen)}
    suites = {
        *("ExecuteStepConformance", "PluginConformance", "RunnerConformance", "ScriptedModel"),
        *("TraceConverterConformance", *(suite for _, suite in map(EXTRAS.__getitem__, chosen) if suite is not None)),
    }
    values = {
        **asdict(names),
        "command": names.name.replace("_", "-"),
        "specs": ", ".join(sorted(specs)),
        "suites": ",\n    ".join(sorted(suites)),
    }
    package = PurePosixPath("src", names.package)
    templates = dict(_templates(_folder("files"), PurePosixPath()))
    files = {
        PurePosixPath(*(names.package if part == "package" else part for part in path.parts)): text
        for path, text in templates.items()
    }
    for extra in chosen:
        parts = dict(_templates(_folder("extras", extra), PurePosixPath()))
        files[package / f"{extra}.py"] = parts[PurePosixPath("module.py")]
        files[package / _PLUGIN_MODULE] += parts[PurePosixPath("hook.py")]
        files[PurePosixPath("tests", _TEST_MODULE)] += parts[PurePosixPath("tests.py")]
    return {path: Template(files[path]).substitute(values) for path in sorted(files)}


def write_plugin(names: PluginNames, folder: Path, extras: Collection[str] = ()) -> list[Path]:
    """Write the files of a new plugin.

    Args:
        names: Its names.
        folder: The folder to make for it; those above it are made too.
        extras: What it has beside its two steps, of `EXTRAS`.

    Returns:
        The files.

    Raises:
        FileExistsError: The folder is there already; nothing was written.
    """
    folder.mkdir(parents=True)
    written = []
    for path, text in plugin_files(names, extras).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        written.append(file)
    return written


def _folder(*parts: str) -> Traversable:
    return resources.files("ace.cli.plugin_template").joinpath(*parts)


def _templates(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, place / entry.name)
        elif entry.name.endswith(_ENDING):
            yield place / entry.name.removesuffix(_ENDING), entry.read_text(encoding="utf-8")
