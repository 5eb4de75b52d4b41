"""Reads the entries of a settings file in TOML or YAML, with the line of each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace.cli.errors import UsageError

if TYPE_CHECKING:
    from yaml import MappingNode, Node

__all__ = ["LEARNING_TABLE", "LONGEST_NAME", "FileEntry", "entries_in"]

LEARNING_TABLE: Final = "learning"
"""The table for the settings of a run. Any other table contains the settings of the plugin with its name."""

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
