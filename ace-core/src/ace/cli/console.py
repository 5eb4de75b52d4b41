"""Prints results: as tables in a terminal, as plain lines elsewhere, as a JSON object with `--json`; formats numbers.

`warnings_shown` shows what the library logs as lines on standard error.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = [
    "JSON_SCHEMA",
    "OutputError",
    "abandon",
    "counted",
    "duration_text",
    "is_terminal",
    "last_note",
    "note",
    "open_missing_streams",
    "print_json",
    "print_table",
    "print_text",
    "redraw_note",
    "result_stream",
    "results_only",
    "shown_time",
    "size_text",
    "visible",
    "warnings_shown",
]

_NUMBER = re.compile(r"[-+$]?\d[\d.,]*(e-?\d+)?( ?%)?( \[[^\[\]]*\])?")
"""A number, with its unit and the interval in which it lies."""

_SHORT: Final = 20
"""The width of the widest column that is not broken in a drawn table."""
_READABLE: Final = 12
"""The least room for each other column; with less, each row is printed as a list."""
_NOT_ASCII = re.compile(r"[^\n -~]")
"""Control characters other than those that JSON escapes."""

JSON_SCHEMA = 1
"""The number in every `--json` object. It rises when a field is removed or changes its meaning."""


def open_missing_streams() -> None:
    """Connect standard input, output and error to the null device where they were closed when the process started.

    The next file that is opened gets the lowest free number. Without this, that could be 2, and what is meant for
    standard error would be written into a skillbook.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # stays open


def abandon(stream: TextIO) -> None:
    """Send further output of a stream to the null device, because its reader is gone.

    Python would otherwise report the same error again when it flushes the stream at exit.

    Args:
        stream: `sys.stdout` or `sys.stderr`.
    """
    try:
        number = stream.fileno()
    except (OSError, ValueError):  # replaced by an object without a file, or closed: nothing to redirect
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


_result_stream: TextIO | None = None
"""Standard output while `results_only` reserves it for results."""


def result_stream() -> TextIO:
    """Return the stream that takes the results of a command."""
    return sys.stdout if _result_stream is None else _result_stream


@contextmanager
def results_only() -> Iterator[None]:
    """Reserve standard output for the output of this module while the block runs.

    Whatever else is printed, by a plugin or by a framework that it imports, goes to standard error: a program may
    read the result. The block is a whole command, entered once, so no other thread replaces `sys.stdout` meanwhile.
    """
    global _result_stream  # there is one standard output in a process
    before, _result_stream = _result_stream, result_stream()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _result_stream = before


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that can be drawn on.

    Args:
        stream: `sys.stdout` or `sys.stderr`.
    """
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class OutputError(Exception):
    """Standard output cannot be written; the command itself may have done all of its work.

    Example:
        >>> str(OutputError("No space left on device"))
        'standard output cannot be written: No space left on device; what the command has changed is kept'
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"standard output cannot be written: {reason}; what the command has changed is kept")


def print_json(result: Mapping[str, object]) -> None:
    """Print a result as one JSON object with the number of its schema first.

    Args:
        result: Names and JSON values.

    Example:
        >>> print_json({"traces": 2})
        {
          "schema": 1,
          "traces": 2
        }
    """
    text = json.dumps({"schema": JSON_SCHEMA, **result}, indent=2, ensure_ascii=False)
    # Escaped as JSON escapes it, so that what is copied from the terminal is the same object.
    print_text(_NOT_ASCII.sub(_json_escape, text) if result_stream().isatty() else text)


def print_text(text: str) -> None:
    """Print text to standard output: as it is to a file or a pipe, and to a terminal with control characters escaped.

    Args:
        text: The text, without the line feed at its end.

    Raises:
        BrokenPipeError: Its reader is gone.
        OutputError: It cannot be written for another reason, such as a full disk.
    """
    stream = result_stream()
    try:
        print(_writable(_safe(text, stream), stream), file=stream, flush=True)  # the command line talks to its user
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon(stream)  # or the interpreter fails to write it once more at its end
        raise OutputError(error.strerror or str(error)) from error


def note(text: str) -> None:
    """Print a line for the person at the terminal, apart from the result: to standard error.

    It never raises. Notes are written from observers, log handlers and signal handlers, where an error would end
    a run or keep it from ending; and without standard error there is no one to tell.

    Args:
        text: The line.
    """
    _write_note(text, end="\n")


def last_note(text: str) -> None:
    """Print a line to standard error right before the process is forced to end; never raises, like `note`.

    It bypasses Python's stream, whose lock may be held by a thread that does not run any more.

    Args:
        text: The line.
    """
    with suppress(OSError):
        os.write(2, f"{visible(text)}\n".encode("utf-8", "backslashreplace"))


def redraw_note(text: str) -> None:
    """Replace the line that the last call showed in the terminal; never raises, like `note`.

    Args:
        text: The new line.
    """
    _write_note(text, start="\r\x1b[K")


def _write_note(text: str, *, start: str = "", end: str = "") -> None:
    stream = sys.stderr
    try:
        stream.write(f"{start}{_writable(_safe(text, stream), stream)}{end}")
        stream.flush()
    except (OSError, ValueError):  # its reader is gone, its disk is full, or it was closed
        abandon(stream)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print a table: drawn in a terminal, else columns separated by two blanks, with no line broken.

    Columns of numbers are aligned on the right. In a terminal that is too narrow for the table, each row is a list.

    Args:
        columns: The headings.
        rows: The cells, as texts without line feeds.
        title: A line above it.

    Example:
        >>> print_table(["id", "section"], [["geo-00001", "geo"]])
        id         section
        geo-00001  geo
    """
    if is_terminal(result_stream()):
        _print_drawn(columns, rows, title)
        return
    lines = [list(columns), *([_one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    numbers = [_is_of_numbers(rows, place) for place in range(len(columns))]
    drawn = [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in lines
    ]
    print_text("\n".join([title, *drawn] if title else drawn))


def _print_drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=False, file=result_stream())
    texts = [[Text(visible(cell)) for cell in row] for row in rows]
    widths = [
        max(map(cell_len, (column, *(row[place].plain for row in texts)))) for place, column in enumerate(columns)
    ]
    room = console.width - 3 * len(columns) - 1 - sum(width for width in widths if width <= _SHORT)
    if room < _READABLE * sum(width > _SHORT for width in widths):
        _print_lists(console, columns, texts, title)
        return
    table = Table(title=Text(visible(title)) if title else None, title_justify="left")
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if _is_of_numbers(rows, place) else "left"
        table.add_column(column, overflow="fold", justify=justify, no_wrap=widths[place] <= _SHORT)
    for row in texts:
        table.add_row(*row)
    console.print(table)


def _print_lists(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]], title: str) -> None:
    """Print each row as a list, with a line for each column."""
    from rich.table import Table
    from rich.text import Text

    if title:
        console.print(Text(f"{visible(title)}\n"))
    for number, row in enumerate(rows):
        lines = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        lines.add_column(no_wrap=True)
        lines.add_column(overflow="fold")
        for column, text in zip(columns, row, strict=True):
            lines.add_row(column, text)
        console.print(*([Text()] if number else []), lines, sep="\n")


def _is_of_numbers(rows: Sequence[Sequence[str]], place: int) -> bool:
    """Whether a column holds only numbers, or `-` for a missing one."""
    cells = {row[place] for row in rows} - {"-", ""}
    return bool(cells) and all(_NUMBER.fullmatch(cell) for cell in cells)


def _one_line(cell: str) -> str:
    return " ".join(visible(cell).split())


def visible(text: str) -> str:
    """Return a text with control characters escaped: the text of a trace must not control the terminal.

    Args:
        text: Any text.

    Example:
        >>> len(visible(chr(27))), visible("plain")
        (4, 'plain')
    """
    return "".join(
        character if character.isprintable() or character in "\n\t" else f"\\x{ord(character):02x}"
        for character in text
    )


def _safe(text: str, stream: TextIO) -> str:
    """Return a text as it is written to a stream, escaped for a terminal."""
    return visible(text) if stream.isatty() else text


def _json_escape(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def _writable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where there is not exactly one.

    Args:
        number: How many.
        noun: In the singular; its plural ends in s.

    Example:
        >>> counted(1, "skill"), counted(2, "new skill")
        ('1 skill', '2 new skills')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration_text(seconds: float) -> str:
    """Return a duration in suitable units.

    Args:
        seconds: The duration, from 0.

    Example:
        >>> duration_text(4.6), duration_text(200), duration_text(7500)
        ('5 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def shown_time(time: str) -> str:
    """Return a time in UTC with seconds. The heading above it must contain the time zone.

    Args:
        time: A time of a history, in ISO format.

    Example:
        >>> shown_time("2026-11-22T04:16:43.057031+01:00")
        '2026-11-22 03:16:43'
    """
    try:
        return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return time  # written by another framework, in a format of its own, or out of range


def size_text(size: int) -> str:
    """Return a number of bytes in the largest unit that it has at least one of.

    Args:
        size: How many bytes.

    Example:
        >>> size_text(1_117_320_000), size_text(200_000_000), size_text(400)
        ('1.12 GB', '200 MB', '0 kB')
    """
    if size >= 1_000_000_000:
        return f"{size / 1_000_000_000:.2f} GB"
    return f"{size / 1_000_000:.0f} MB" if size >= 1_000_000 else f"{size / 1000:.0f} kB"


_LONGEST = 500
_TOLD_BY_THE_REPORT = (
    "ace.runners.failures",
    "ace.runners.spend.stopped",
    "ace.steps.tag",
    "ace.skillbook.book",
)


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.name in _TOLD_BY_THE_REPORT:
            return
        from ace.calls.secrets import redact  # most commands need none

        try:
            message = record.getMessage()
        except Exception:  # a plugin's arguments do not fit its message; a log line must not end the run
            message = str(record.msg)
        text = " ".join(redact(message).split())
        note(f"ace: {record.levelname.lower()}: {visible(text[:_LONGEST])}")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings and errors of `ace` on standard error while the block runs, each as one line."""
    handler = _Notes(logging.WARNING)
    logger = logging.getLogger("ace")
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
