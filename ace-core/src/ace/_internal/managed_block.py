"""A block between two marks in a text file of the user, such as CLAUDE.md or AGENTS.md.

Only the block is written. The rest of the file is not changed, including its line endings. Marks contain the name of
their block, so that several writers can have one block each in the same file.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

from ace._internal.atomic_file import folder_lock, write_durably

BEGIN_MARK = "<!-- ace:skills begin (written by ace; changes inside are overwritten) -->"
END_MARK = "<!-- ace:skills end -->"

_SKILLS = "skills"
"""The name of the block with the skills of a skillbook."""
_ANY_MARK = re.compile(r"<!-- ace:(?=\w+ (?:begin|end)\b)")
_START_OF_LINE = rb"(?:^|\A\xef\xbb\xbf)"
_END_OF_LINE = rb"\b[^\r\n]*-->[ \t]*\r?$"


class ManagedBlockError(ValueError):
    """The marks in a file do not form one block."""


def replace_managed_block(original: bytes, content: str, name: str = _SKILLS) -> bytes:
    r"""Return the bytes of the file with the content in its managed block.

    A file without marks gets the block at its end, after an empty line.

    Args:
        original: The whole file; empty for a new one.
        content: The text between the marks. Lines that look like marks are escaped.
        name: The name of the block.

    Returns:
        The new text of the whole file.

    Raises:
        ManagedBlockError: If a mark is missing, doubled or out of order.

    Example:
        >>> replace_managed_block(b"# Notes\r\n", "- be kind").split(b"\r\n")[2:4]
        [b'<!-- ace:skills begin (written by ace; changes inside are overwritten) -->', b'- be kind']
    """
    newline = _line_ending(original)
    marks = [mark.replace(f"ace:{_SKILLS}", f"ace:{name}") for mark in (BEGIN_MARK, END_MARK)]
    lines = [marks[0], *_safe_lines(content), marks[1]]
    block = newline.join(line.encode("utf-8") for line in lines)
    span = _block_span(original, name)
    if span is not None:
        return original[: span[0]] + block + original[span[1] :]
    if not original or original == b"\xef\xbb\xbf":
        return original + block + newline
    gap = newline if original.endswith(b"\n") else newline * 2
    return original + gap + block + newline


def read_managed_block(original: bytes, name: str = _SKILLS) -> str | None:
    """Return the content between the marks, with line feeds as line endings, or None without a block.

    Raises:
        ManagedBlockError: If the marks do not form one block.
    """
    span = _block_span(original, name)
    if span is None:
        return None
    lines = original[span[0] : span[1]].replace(b"\r\n", b"\n").split(b"\n")
    return b"\n".join(lines[1:-1]).decode("utf-8")


class BlockBefore(NamedTuple):
    """What a file has where its managed block is or will be, so that it can be restored to the byte."""

    block: bytes | None
    """The block with its marks; None if there is none."""
    has_line_end: bool
    """Whether the text that a new block would follow ends with a line end."""


def block_before(original: bytes, name: str = _SKILLS) -> BlockBefore:
    """Return what a file has where its managed block is or will be.

    Raises:
        ManagedBlockError: If the marks do not form one block.
    """
    span = _block_span(original, name)
    return BlockBefore(None if span is None else original[span[0] : span[1]], original.endswith(b"\n"))


def restore_block(now: bytes, before: BlockBefore, name: str = _SKILLS) -> bytes:
    r"""Return the bytes of a file with its earlier block, or without one if there was none. The rest is not changed.

    Args:
        now: The whole file.
        before: What `block_before` returned before `replace_managed_block` was called.
        name: The name of the block.

    Raises:
        ManagedBlockError: If the marks do not form one block.

    Example:
        >>> before = b"# Notes"
        >>> restore_block(replace_managed_block(before, "- be kind"), block_before(before))
        b'# Notes'
    """
    span = _block_span(now, name)
    if span is None:
        return now
    start, end = span
    if before.block is not None:
        return now[:start] + before.block + now[end:]
    newline = _line_ending(now[start:end])
    head = now[:start].removesuffix(newline)
    return (head if before.has_line_end else head.removesuffix(newline)) + now[end:].removeprefix(newline)


def write_managed_block(path: str | Path, content: str, name: str = _SKILLS) -> None:
    """Write the managed block of a file, atomically; the file is created if it does not exist.

    Args:
        path: The text file.
        content: The text to put between the marks.
        name: The name of the block.

    Raises:
        ManagedBlockError: If the marks in the file do not form one block; the file is not changed.
        OSError: If the file cannot be read or written; it is not changed.
    """
    with folder_lock(path):
        target = Path(path)
        original = target.read_bytes() if target.exists() else b""
        try:
            changed = replace_managed_block(original, content, name)
        except ManagedBlockError as error:
            raise ManagedBlockError(f"{path}: {error}") from None
        if changed != original or not target.exists():
            write_durably(target, changed)


def _line_ending(original: bytes) -> bytes:
    """Return the line ending that the file uses most."""
    windows = original.count(b"\r\n")
    return b"\r\n" if windows * 2 > original.count(b"\n") else b"\n"


def _safe_lines(content: str) -> list[str]:
    """Return the lines; a line that reads as one of our marks cannot end a block early."""
    return [_ANY_MARK.sub("<!-- ace: ", line) for line in re.split(r"\r\n|\r|\n", content)]


@functools.cache
def _mark(name: str, side: str) -> re.Pattern[bytes]:
    mark = re.escape(f"<!-- ace:{name} {side}".encode())
    return re.compile(_START_OF_LINE + rb"(?P<mark>[ \t]*" + mark + _END_OF_LINE + rb")", re.MULTILINE)


def _block_span(original: bytes, name: str) -> tuple[int, int] | None:
    begins = list(_mark(name, "begin").finditer(original))
    ends = list(_mark(name, "end").finditer(original))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        raise ManagedBlockError(
            f"the file has {len(begins)} begin and {len(ends)} end marks of ace:{name}, "
            f"but a block needs one of each, in this order; correct or delete the marks"
        )
    end = ends[0].end()
    if original[end - 1 : end] == b"\r":
        end -= 1
    return begins[0].start("mark"), end
