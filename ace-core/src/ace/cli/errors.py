"""The error messages of the command line, and the exit codes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from ace.cli.signals import EXIT_CODE

__all__ = [
    "DONE",
    "INTERRUPTED",
    "WITH_FAILURES",
    "WRONG_USAGE",
    "UsageError",
    "check_is_path",
    "check_output_file",
    "exit_code_of",
    "near_file",
    "print_error",
]

DONE: Final = 0
WITH_FAILURES: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = EXIT_CODE


_LOCATION: Final = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]+:)/+")
"""The beginning of the location of a store, also with one slash, as in a path. A drive has only one letter."""


class UsageError(Exception):
    """The command cannot be run as given. The text says why, and what to do.

    Example:
        >>> raise UsageError("no such file: 'runs.jsonl'; give the path of recorded traces")
        Traceback (most recent call last):
        ...
        ace.cli.errors.UsageError: no such file: 'runs.jsonl'; give the path of recorded traces
    """


def print_error(message: str) -> None:
    """Write one sentence to standard error.

    Args:
        message: The sentence, without a capital letter or a prefix.
    """
    from ace.calls.secrets import redact
    from ace.cli.console import note, visible

    note(visible(redact(f"ace: {message}")))


def exit_code_of(error: BaseException) -> int | None:
    """Report an error that is not a bug.

    Args:
        error: What a command raised.

    Returns:
        The exit code; None if the error is a bug, which a traceback has to show.
    """
    from ace.cli.console import abandon

    if isinstance(error, BrokenPipeError):
        abandon(sys.stdout)
        return WITH_FAILURES
    interruption = _interruption_in(error)
    if interruption is not None:
        print_error(" ".join(["interrupted", *getattr(interruption, "__notes__", [])]))
        return INTERRUPTED
    known = _known(error)
    if known is None:
        return None
    message, code = known
    print_error(message)
    return code


def _interruption_in(error: BaseException | None) -> BaseException | None:
    """Return the signal behind an error. The interrupted code may have failed to clean up, with another error."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def _known(error: BaseException) -> tuple[str, int] | None:
    """Return the sentence and the exit code for an error that is not a bug."""
    if isinstance(error, UsageError):
        return str(error), WRONG_USAGE
    from ace.cli.console import OutputError

    if isinstance(error, OutputError):
        return str(error), WITH_FAILURES
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror}", WRONG_USAGE
    from ace.plugins import PluginError
    from ace.protocols.errors import LLMError, UnusableAnswerError
    from ace.skillbook.errors import SkillbookError

    if isinstance(error, UnusableAnswerError):
        return str(error), WITH_FAILURES
    return (str(error), WRONG_USAGE) if isinstance(error, LLMError | PluginError | SkillbookError) else None


def check_is_path(name: str, path: str | Path | None) -> None:
    """Reject the location of a store, which may hold a password, where a command takes a file or a folder.

    Args:
        name: The option or argument, for the error.
        path: Its value; None for an option that was not given.

    Raises:
        UsageError: It is the location of a store. The text does not show the password.

    Example:
        >>> check_is_path("--workspace", "acme://ann:s3cret@team/skills")
        Traceback (most recent call last):
        ...
        ace.cli.errors.UsageError: --workspace takes a file or a folder, not 'acme://[hidden]@team/skills'
    """
    begin = None if path is None or Path(path).exists() else _LOCATION.match(str(path))
    if begin is None:
        return
    from ace.skillbook import shown_location

    location = f"{begin[1]}//{str(path)[begin.end() :]}"
    raise UsageError(f"{name} takes a file or a folder, not {shown_location(location)!r}")


def check_output_file(option: str, path: Path | None) -> None:
    """Reject a file that cannot be written, before any model call.

    Args:
        option: The option, for the error.
        path: Its value; None for an option that was not given.

    Raises:
        UsageError: It is a folder or the location of a store, or its folder does not exist.
    """
    check_is_path(option, path)
    if path is not None and path.is_dir():
        raise UsageError(f"{option}: {str(path)!r} is a folder; give the name of a file")
    if path is not None and not path.absolute().parent.is_dir():
        raise UsageError(f"{option}: no such folder: {str(path.parent)!r}; create it first")


def near_file(path: str | Path) -> str:
    """Return a question about the file that a misspelt path probably means, for the end of an error; else empty.

    Args:
        path: The path, where there is nothing.

    Example:
        >>> near_file("no such folder/runs.jsonl")
        ''
    """
    from ace._internal.arguments import closest_name

    missing = Path(path)
    if missing.parent != missing and not missing.parent.is_dir():
        return ""
    try:
        near = closest_name(missing.name, [found.name for found in missing.parent.iterdir()])
    except OSError:  # the folder cannot be listed
        return ""
    return "" if near is None else f"; did you mean {str(missing.with_name(near))!r}?"
