"""Recognises errors in the output of compilers, type checkers, test runners and Python programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from ace.loop.execution import ExecutionError, Severity

__all__ = ["errors_in", "without_escapes"]

_MOST_ERRORS: Final = 100
_LONGEST_MESSAGE: Final = 1000
_LAST_LINES: Final = 10

# The table of one-line patterns, the first that matches a line counts. Each starts at the beginning of a line, and
# `\S` keeps the time linear.
_PATTERNS: Final[Sequence[tuple[str, re.Pattern[str]]]] = (
    (
        "",  # path:line[:col]: error: text, of gcc, clang, mypy, go vet and many others
        re.compile(
            r"(?P<file>[^\s:][^:]{0,300}):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?: "
            r"(?P<severity>fatal error|error|warning|note|info): (?P<message>.+)"
        ),
    ),
    (
        "tsc",  # path(line,col): error TS2307: text
        re.compile(
            r"(?P<file>[^\s(][^(]{0,300})\((?P<line>\d{1,9}),(?P<column>\d{1,9})\): "
            r"(?P<severity>error|warning|info) (?P<message>.+)"
        ),
    ),
    (
        "tsc",  # path:line:col - error TS2307: text, on a terminal
        re.compile(
            r"(?P<file>[^\s:][^:]{0,300}):(?P<line>\d{1,9}):(?P<column>\d{1,9}) - "
            r"(?P<severity>error|warning|info) (?P<message>.+)"
        ),
    ),
)
_SEVERITIES: Final[dict[str, Severity]] = {
    "fatal error": "error",
    "error": "error",
    "warning": "warning",
    "note": "info",
    "info": "info",
}

_PYTEST_FAILED: Final = re.compile(r"(?:FAILED|ERROR) (?P<file>\S+\.py)(?:::(?P<test>.+?))?(?: - (?P<message>.*))?")
_PYTEST_HEADING: Final = re.compile(r"_{2,} (?P<name>.+?) _{2,}")
_PYTEST_PLACE: Final = re.compile(r"(?P<file>[^\s:][^:]{0,300}):(?P<line>\d{1,9}):(?: .*)?")
_PYTEST_FIXTURE: Final = re.compile(r"file (?P<file>.{1,1000}), line (?P<line>\d{1,9})")
"""The place of a test whose fixture is missing."""
_PYTEST_REASON: Final = re.compile(r"E {1,20}(?P<reason>fixture '.+' not found)")
_HEADING_OF_PART: Final = re.compile(r"(?:ERROR (?:at (?:setup|teardown) of|collecting) )?(?P<name>.+)")

_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'\s+File "(?P<file>[^"]{1,1000})", line (?P<line>\d{1,9})')
_RAISED: Final = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: .*)?")
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]{0,50}[A-Za-z]")


def errors_in(output: str, tool: str = "", *, status: Literal["pass", "fail"] = "fail") -> list[ExecutionError]:
    """Return the errors that a command has reported in its output, in order, each once.

    Errors are recognised in the forms `path:line[:column]: error: text` of most compilers, `path(line,column): error`
    of tsc, `FAILED` of pytest, whose line is looked for in the report of the test, and in Python tracebacks. If a
    command has failed and no error is recognised, the last lines of its output are the error.

    Args:
        output: What the command has printed.
        tool: The program, where a form does not tell.
        status: Whether the command passed; warnings of one that passed are returned too.

    Example:
        >>> [str(error) for error in errors_in("src/a.c:3:7: error: expected ';'", "gcc")]
        ["src/a.c:3:7: error: expected ';' (gcc)"]
        >>> [str(error) for error in errors_in("Killed", "make")]
        ['error: Killed (make)']
        >>> errors_in("all good", "make", status="pass")
        []
    """
    lines = [line.rstrip() for line in without_escapes(output).splitlines()]
    found = [*_one_line_errors(lines, tool), *_pytest_errors(lines), *_tracebacks(lines)]
    found.sort(key=lambda pair: pair[0])
    errors = list({str(error): error for _, error in found}.values())[:_MOST_ERRORS]
    if status == "fail" and not any(error.severity == "error" for error in errors):
        last = [line for line in lines if line.strip()][-_LAST_LINES:]
        errors.append(_error("\n".join(last) or "no output", tool, keep_end=True))
    return errors


def without_escapes(output: str) -> str:
    """Return an output without the escape sequences for colours.

    Args:
        output: What a command has printed.
    """
    return _ESCAPES.sub("", output)


def _one_line_errors(lines: Sequence[str], tool: str) -> Iterator[tuple[int, ExecutionError]]:
    for number, line in enumerate(lines):
        for name, pattern in _PATTERNS:
            match = pattern.fullmatch(line[: 2 * _LONGEST_MESSAGE])
            if match is None:
                continue
            column = match["column"]
            yield (
                number,
                ExecutionError(
                    message=_cut(match["message"]),
                    tool=name or tool,
                    severity=_SEVERITIES[match["severity"]],
                    file=match["file"],
                    line=int(match["line"]),
                    column=None if column is None else int(column),
                ),
            )
            break


def _pytest_errors(lines: Sequence[str]) -> Iterator[tuple[int, ExecutionError]]:
    """Yield the failed tests of the summary, with the line in the file of the test from the report of each."""
    places: dict[tuple[str, str], int] = {}
    fixtures: dict[str, tuple[str, int]] = {}
    reasons: dict[str, str] = {}
    test = ""
    for number, line in enumerate(lines):
        heading = _PYTEST_HEADING.fullmatch(line)
        if heading is not None:
            part = _HEADING_OF_PART.fullmatch(heading["name"])
            test = part["name"] if part is not None else heading["name"]
            continue
        place = _PYTEST_PLACE.fullmatch(line)
        if place is not None and test:
            places[test, place["file"]] = int(place["line"])
        fixture, reason = _PYTEST_FIXTURE.fullmatch(line), _PYTEST_REASON.fullmatch(line)
        if fixture is not None and test:
            fixtures[test] = (fixture["file"], int(fixture["line"]))
        if reason is not None and test:
            reasons[test] = reason["reason"]
        failed = _PYTEST_FAILED.fullmatch(line)
        if failed is not None:
            name = failed["test"] or ""
            heading_of_test = name.replace("::", ".") or failed["file"]
            reason_given = failed["message"] or reasons.get(heading_of_test)
            message = " - ".join(text for text in (name, reason_given) if text) or "an error in this file"
            at = places.get((heading_of_test, failed["file"]))
            file, line_of_test = fixtures.get(heading_of_test, ("", 0))
            if at is None and file.endswith(failed["file"]):
                at = line_of_test
            yield number, _error(message, "pytest", file=failed["file"], line=at)


def _tracebacks(lines: Sequence[str]) -> Iterator[tuple[int, ExecutionError]]:
    """Yield the error of each Python traceback, with the place of its innermost frame."""
    frame: re.Match[str] | None = None
    is_inside = False
    for number, line in enumerate(lines):
        if line.strip() == _TRACEBACK:
            is_inside, frame = True, None
        elif is_inside and (found := _FRAME.match(line)):
            frame = found
        elif is_inside and line[:1] not in ("", " "):
            is_inside = False
            if frame is not None and _RAISED.fullmatch(line):
                yield number, _error(line, "python", file=frame["file"], line=int(frame["line"]))


def _error(
    message: str, tool: str, *, file: str = "", line: int | None = None, keep_end: bool = False
) -> ExecutionError:
    return ExecutionError(message=_cut(message, keep_end=keep_end), tool=tool, file=file, line=line)


def _cut(message: str, *, keep_end: bool = False) -> str:
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return message[-_LONGEST_MESSAGE:] if keep_end else message[:_LONGEST_MESSAGE]
