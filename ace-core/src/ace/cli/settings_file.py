"""Finds the settings files, and reads their entries in TOML or YAML, with their lines."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace._internal.arguments import shown
from ace.cli.errors import UsageError

if TYPE_CHECKING:
    from yaml import MappingNode, Node

__all__ = [
    "LEARNING_TABLE",
    "LONGEST_NAME",
    "MAPPINGS_TABLE",
    "FileEntry",
    "PluginSetting",
    "SettingTable",
    "entries_in",
    "plugin_setting",
    "project_file",
    "setting_tables",
    "user_file",
]

LEARNING_TABLE: Final = "learning"
"""The table for the settings of a run. Any other table contains the settings of the plugin with its name."""

MAPPINGS_TABLE: Final = "logs"
"""The table with the mappings of log formats, `[[logs.mapping]]`."""

_LARGEST_FILE: Final = 1_000_000
LONGEST_NAME: Final = 60
"""How much of a name is shown in an error, in characters."""


class FileEntry(NamedTuple):
    """A value that a file sets."""

    name: str
    value: object
    line: int
    table: str
    """The name of the table that it is in; empty at the top."""
    table_line: int
    """The line at which the table begins; that of the entry at the top."""


def entries_in(path: Path) -> Iterator[FileEntry]:
    """Yield the entries of a file, those in its tables with the others.

    Args:
        path: A file that ends in `.yaml` or `.yml`, or else one in TOML.

    Raises:
        UsageError: It is too large, or is not in this format. The message names the file and, if possible, the line.
        OSError: It cannot be read.
    """
    text = _text_of(path)
    try:
        is_yaml = path.suffix.lower() in (".yaml", ".yml")
        yield from _yaml_entries(path, text) if is_yaml else _toml_entries(path, text)
    except RecursionError as error:
        raise UsageError(f"{path}: the settings file is nested too deeply; it takes lines of name = value") from error


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise UsageError(f"{path}: the settings file is larger than {_LARGEST_FILE // 1000} kB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the settings file is not UTF-8 (byte {error.start})") from error


def _toml_entries(path: Path, text: str) -> Iterator[FileEntry]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: the settings file is not TOML: {error}") from error
    except ValueError as error:  # what `int` says of a number with thousands of digits
        raise UsageError(f"{path}: the settings file holds a number with too many digits") from error
    for name, value in found.items():
        line = _line_of(name, text)
        if isinstance(value, Mapping):
            for inner, inner_value in value.items():
                yield FileEntry(inner, inner_value, _line_of(inner, text, after=line), name, line)
        else:
            yield FileEntry(name, value, line, "", line)


def _line_of(name: str, text: str, *, after: int = 1) -> int:
    """Return the first line, from `after` on, that sets a name or opens a table of it; `tomllib` does not tell."""
    bare = re.escape(name)
    begins = re.compile(rf"\s*(\[+\s*)?(?:{bare}|\"{bare}\"|'{bare}')\s*[=.\]]")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if number >= after and begins.match(line)), after)


def _yaml_entries(path: Path, text: str) -> Iterator[FileEntry]:
    import yaml  # slow to import, and hardly any command reads such a file

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            return
        for name, node, line in _pairs(path, root):
            if isinstance(node, yaml.MappingNode):
                for inner, inner_node, inner_line in _pairs(path, node):
                    yield FileEntry(inner, _yaml_value(path, inner, inner_node), inner_line, name, line)
            else:
                yield FileEntry(name, _yaml_value(path, name, node), line, "", line)
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        raise UsageError(f"{path}, line {line}: the settings file is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: the settings file is not YAML: {' '.join(str(error).split())}") from error


def _pairs(path: Path, table: Node | MappingNode) -> Iterator[tuple[str, Node, int]]:
    """Yield the names in a table, their values and their lines."""
    import yaml

    if not isinstance(table, yaml.MappingNode):
        raise UsageError(f"{path}, line {table.start_mark.line + 1}: the settings file must have lines of name: value")
    for key, node in table.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise UsageError(f"{path}, line {line}: the name of a setting must be a word")
        yield key.value, node, line


def _yaml_value(path: Path, name: str, node: Node) -> object:
    """Return a value; an empty table if no setting can have it, such as an alias that is nested in itself."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        return {}
    if isinstance(node, yaml.SequenceNode) and not all(isinstance(child, yaml.ScalarNode) for child in node.value):
        return {}
    try:
        value: object = yaml.SafeLoader("").construct_object(node, deep=True)
    except yaml.MarkedYAMLError as error:
        problem = error.problem
    except (ValueError, AttributeError, LookupError):  # PyYAML converts the value of a tag without checking it
        problem = "the value does not match its type, such as a date whose month is 13"
    else:
        return value
    raise UsageError(
        f"{path}, line {node.start_mark.line + 1}: the setting {name[:LONGEST_NAME]!r} cannot be read: {problem}"
    )


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's settings, which may not exist.

    Args:
        environ: The environment.

    Example:
        >>> user_file({"XDG_CONFIG_HOME": "/home/ann/settings"}).as_posix()
        '/home/ann/settings/ace/config.toml'
    """
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    home = Path(folder) if Path(folder).is_absolute() else _home(environ) / ".config"
    return home / "ace" / "config.toml"


def project_file(folder: Path) -> Path | None:
    """Return the `ace.toml` of the project, or None.

    It is looked for in the folder, and above it only inside a git repository: a file that a stranger put into a
    shared folder above must not steer a run.

    Args:
        folder: The folder in which the command runs.
    """
    folder = folder.resolve()
    above = [folder, *folder.parents]
    root = next((place for place, parent in enumerate(above) if (parent / ".git").exists()), 0)
    return next((parent / "ace.toml" for parent in above[: root + 1] if (parent / "ace.toml").is_file()), None)


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) if home else Path.home()


class SettingTable(NamedTuple):
    """The table of a plugin in one settings file."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[str, int]
    """The line of each value."""
    is_project: bool
    """Whether it is the file of a project, which may not be trusted."""


def setting_tables(
    name: str, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Sequence[SettingTable]:
    """Return the tables of a plugin in the settings files, in order; later ones override earlier ones.

    Args:
        name: The name of the plugin.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A file cannot be read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "ace.toml").write_text("[acme]\\ndepth = 2\\n", encoding="utf-8")
        ...     [table.values for table in setting_tables("acme", environ={"HOME": folder}, folder=Path(folder))]
        [{'depth': 2}]
    """
    variables = os.environ if environ is None else environ
    user, project = user_file(variables), project_file(Path.cwd() if folder is None else folder)
    files = [(user, False)] * user.is_file() + ([] if project is None else [(project, True)])
    tables = []
    for path, is_project in files:
        entries = [entry for entry in entries_in(path) if entry.table == name]
        values = {entry.name: entry.value for entry in entries}
        tables.append(SettingTable(path, values, {entry.name: entry.line for entry in entries}, is_project))
    return [table for table in tables if table.values]


class PluginSetting(NamedTuple):
    """A setting of a plugin."""

    value: str
    """Its value."""
    origin: str
    """Where it comes from."""


def plugin_setting(
    plugin: str, name: str, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> PluginSetting | None:
    """Return a setting of a plugin, or None if it is not set: user file < project file < environment.

    Args:
        plugin: The name of the plugin, which is also the name of the table.
        name: The name of the setting. Its variable is `ACE_`, the name of the plugin, `_` and this name, in capitals.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A file cannot be read, or the value is not a text.

    Example:
        >>> plugin_setting("beads", "test", environ={"ACE_BEADS_TEST": "pytest -q"})
        PluginSetting(value='pytest -q', origin='variable ACE_BEADS_TEST')
    """
    variables = os.environ if environ is None else environ
    variable = f"ACE_{plugin}_{name}".upper()
    if variables.get(variable, "").strip():
        return PluginSetting(variables[variable], f"variable {variable}")
    for table in reversed(setting_tables(plugin, environ=variables, folder=folder)):
        if name in table.values:
            value, origin = table.values[name], f"{table.path}, line {table.lines[name]}"
            if not isinstance(value, str) or not value.strip():
                raise UsageError(f"{origin}: the setting {name!r} in [{plugin}] must be a text, got {shown(value)}")
            return PluginSetting(value, origin)
    return None
