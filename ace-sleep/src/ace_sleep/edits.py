"""Edits of files that sessions record, applied to a copy of the repository."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ace_sleep.repository import NoCopyError

__all__ = ["Edit", "apply_edit", "edits_of"]

_PATHS: Final = ("file_path", "filePath", "path", "absolute_path", "target_file", "filename")
_CONTENTS: Final = ("content", "contents", "file_text", "text")
_OLD: Final = ("old_string", "oldString", "old_str", "oldText", "old_text")
_NEW: Final = ("new_string", "newString", "new_str", "newText", "new_text")
_ALL: Final = ("replace_all", "replaceAll", "allow_multiple")
_PATCHES: Final = ("input", "patch", "patchText", "patch_text")
_PATCH: Final = re.compile(r"\*\*\* Begin Patch\n(.*?)\n?\*\*\* End Patch", re.DOTALL)
_PATCH_FILE: Final = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one file."""

    path: str
    """The file, absolute or relative to the folder of the session."""
    old: str | None
    """The text that is replaced; None if the whole file is written."""
    new: str | None
    """The text that is written; None if the file is deleted."""
    is_everywhere: bool = False
    """Whether every occurrence of the text is replaced."""


def edits_of(arguments: Mapping[str, Any] | str) -> list[Edit]:
    """Return the edits that the call of a tool makes; none if it is not an edit.

    Args:
        arguments: The arguments of the call, or the text that was passed.

    Example:
        >>> edits_of({"file_path": "a.py", "old_string": "1", "new_string": "2"})
        [Edit(path='a.py', old='1', new='2', is_everywhere=False)]
    """
    patch = _patch_in(arguments)
    if patch is not None:
        return _edits_of_patch(patch)
    if isinstance(arguments, str):
        return []
    path = _text(arguments, _PATHS)
    if path is None:
        return []
    changes = arguments.get("edits")
    found = (
        [_replacement(path, change) for change in changes if isinstance(change, Mapping)]
        if isinstance(changes, Sequence) and not isinstance(changes, str)
        else [_replacement(path, arguments)]
    )
    return [edit for edit in found if edit is not None]


def _replacement(path: str, fields: Mapping[str, Any]) -> Edit | None:
    old, new = _text(fields, _OLD), _text(fields, _NEW)
    if new is not None and old:
        return Edit(path, old, new, any(fields.get(name) is True for name in _ALL))
    content = new if old == "" else _text(fields, _CONTENTS)
    return None if content is None else Edit(path, None, content)


def _text(fields: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), None)


def _patch_in(arguments: Mapping[str, Any] | str) -> str | None:
    """Return a patch in the format of Codex, which is an argument, or part of a command."""
    texts = [arguments] if isinstance(arguments, str) else [_text(arguments, _PATCHES) or "", json_texts(arguments)]
    found = next((match for match in map(_PATCH.search, texts) if match), None)
    return None if found is None else found[1]


def json_texts(arguments: Mapping[str, Any]) -> str:
    """Return the texts of a command that is a list of words, joined.

    Args:
        arguments: The arguments of a call.
    """
    command = arguments.get("command") or arguments.get("cmd") or ""
    return command if isinstance(command, str) else "\n".join(word for word in command if isinstance(word, str))


def _edits_of_patch(patch: str) -> list[Edit]:
    edits: list[Edit] = []
    kind, path, old, new = "", "", [""][:0], [""][:0]

    def close() -> None:
        if kind == "Add":
            edits.append(Edit(path, None, "".join(f"{line}\n" for line in new)))
        elif kind == "Delete":
            edits.append(Edit(path, None, None))
        elif old or new:
            edits.append(Edit(path, "\n".join(old), "\n".join(new)))

    for line in patch.split("\n"):
        heading = _PATCH_FILE.match(line)
        if heading or line.startswith("@@"):
            if kind != "Add" or heading:
                close()
            kind, path = (heading[1], heading[2].strip()) if heading else (kind, path)
            old, new = [], []
        elif kind:
            if line[:1] in (" ", "-", ""):
                old.append(line[1:])
            if line[:1] in (" ", "+", ""):
                new.append(line[1:])
    if kind:
        close()
    return edits


def apply_edit(edit: Edit, tree: Path, root: Path, folder: str) -> bool:
    """Apply an edit to a copy of a repository, and return whether it is about a file in it.

    Args:
        edit: What to change.
        tree: The copy.
        root: The folder of the repository.
        folder: The folder of the session.

    Raises:
        NoCopyError: The file is not as it was in the session, or a link leads out of the copy.
    """
    relative = os.path.relpath(os.path.normpath(os.path.join(folder, edit.path)), root)
    if relative.split(os.sep)[0] in ("..", ".git"):
        return False
    target = tree / relative
    real = os.path.realpath(tree)
    if not os.path.realpath(target).startswith(real + os.sep):
        raise NoCopyError(f"{relative} is a link that leads out of the repository")
    try:
        _write(edit, target)
    except (OSError, UnicodeDecodeError) as error:
        raise NoCopyError(f"{relative} is not as it was in the session") from error
    return True


def _write(edit: Edit, target: Path) -> None:
    if edit.new is None:
        target.unlink()
        return
    if edit.old is None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(edit.new, encoding="utf-8", newline="")
        return
    content = target.read_bytes().decode("utf-8")
    if edit.old not in content:
        raise NoCopyError(f"{target.name} is not as it was in the session")
    changed = content.replace(edit.old, edit.new, -1 if edit.is_everywhere else 1)
    target.write_bytes(changed.encode("utf-8"))
