"""Derives the names of a new plugin, fills the files of the template in, and writes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from typing import TYPE_CHECKING, Final

from ace import __version__
from ace.plugins.discovery import BUILT_IN_NAMES, RESERVED

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["EXTRAS", "PluginNames", "names_of_plugin", "plugin_files", "write_plugin"]

_LONGEST = 50

_ENDING = ".template"
_PLUGIN_MODULE = "plugin.py"
_TEST_MODULE = "test_conformance.py"

EXTRAS: Final = {
    "command": ("CommandSpec", "CommandConformance"),
    "logs": ("LogReaderSpec", "LogReaderConformance"),
    "observer": ("ObserverSpec", "ObserverConformance"),
    "runner": ("RunnerSpec", None),
}
"""What a plugin can have beside its two steps, each with its spec and its suite of the kit."""


@dataclass(frozen=True, slots=True)
class PluginNames:
    """All names of one plugin."""

    name: str
    """That of the entry point."""
    distribution: str
    """That of the distribution."""
    package: str
    """That of the import package."""
    class_name: str
    """The beginning of the names of its classes."""
    core_range: str
    """The releases of ace-core that it is made for."""


def names_of_plugin(name: str) -> PluginNames:
    """Derive all names from the one that an author chose.

    Args:
        name: The name of the plugin, with hyphens or underscores.

    Raises:
        ValueError: It cannot be the name of a plugin; the text says why.

    Example:
        >>> names = names_of_plugin("night-owl")
        >>> names.name, names.distribution, names.package, names.class_name
        ('night_owl', 'ace-night-owl', 'ace_night_owl', 'NightOwl')
        >>> names_of_plugin("Night Owl")
        Traceback (most recent call last):
        ...
        ValueError: 'Night Owl' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'night_owl'
    """
    written = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", written) or len(written) > _LONGEST:
        suggested = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:_LONGEST] or "acme"
        raise ValueError(f"{name!r} cannot name a plugin: use a-z, 0-9 and single hyphens, such as {suggested!r}")
    if written.startswith("ace_"):
        raise ValueError(f"{name!r} gets 'ace-' in front by itself; write {written.removeprefix('ace_')!r}")
    if written in (*RESERVED, *BUILT_IN_NAMES, "core"):
        raise ValueError(f"the name {name!r} belongs to ACE itself; choose another one")
    major, minor = map(int, __version__.split(".")[:2])
    return PluginNames(
        name=written,
        distribution=f"ace-{written.replace('_', '-')}",
        package=f"ace_{written}",
        class_name=written.title().replace("_", ""),
        core_range=f">={major}.{minor},<{major}.{minor + 1}" if major == 0 else f">={major}.{minor},<{major + 1}",
    )


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
        "paths": "from pathlib import Path\n" if "logs" in chosen else "",
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
        FileExistsError: The folder already exists; nothing was written.
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
