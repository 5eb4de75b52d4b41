"""Reads a settings file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ace.cli.errors import UsageError
from ace.cli.settings.fields import FIELDS, SettingValue

__all__ = ["FileValue", "read_settings_file"]


_LARGEST_FILE: Final = 1_000_000
_LONGEST_NAME: Final = 60


class FileValue(NamedTuple):
    """A value and the line that sets it."""

    value: SettingValue
    line: int


def read_settings_file(path: Path) -> Mapping[str, FileValue]:
    """Return the values of a settings file by name.

    Args:
        path: A TOML file of `name = value` lines.

    Raises:
        UsageError: It cannot be read, or holds an unknown name or a value of the wrong type.
    """
    text = _text_of(path)
    try:
        entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: the settings file is not TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: the settings file is nested too deeply; it takes lines of name = value") from error
    except ValueError as error:  # what `int` says of a number with thousands of digits
        raise UsageError(f"{path}: the settings file holds a number with too many digits") from error
    known = {field.name: field for field in FIELDS}
    values = {}
    for name, entry in entries.items():
        line = _line_of(name, text)
        if name not in known:
            shown = name[:_LONGEST_NAME]
            raise UsageError(f"{path}, line {line}: there is no setting {shown!r}{_suggestion(shown, known)}")
        try:
            values[name] = FileValue(known[name].checked(entry), line)
        except ValueError as error:
            raise UsageError(f"{path}, line {line}: the setting {name!r} {error}") from error
    return values


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_LARGEST_FILE + 1)
    if len(data) > _LARGEST_FILE:
        raise UsageError(f"{path}: the settings file is larger than {_LARGEST_FILE // 1000} kB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the settings file is not UTF-8 (byte {error.start})") from error


def _line_of(name: str, text: str) -> int:
    """Return the first line that sets a name or opens a table of it; `tomllib` does not tell."""
    bare = re.escape(name)
    begins = re.compile(rf"\s*(\[+\s*)?(?:{bare}|\"{bare}\"|'{bare}')\s*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if begins.match(line)), 1)


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
