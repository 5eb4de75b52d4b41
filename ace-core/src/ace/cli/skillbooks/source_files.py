"""Reads skills from the files of this project, of other frameworks and of coding agents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ace.cli.clock import clock_from_environment
from ace.cli.errors import UsageError
from ace.cli.skillbooks.opening import is_store
from ace.marked_block import MarkedBlockError, read_marked_block
from ace.skillbook import Skillbook, SkillbookFileError
from ace.skillbook.json_file import whole_file
from ace.skillbook.stores import has_scheme, shown_location

__all__ = ["SourceBook", "read_source_books"]

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SourceBook:
    """The skills of one file, in memory."""

    place: str
    """The file."""
    book: Skillbook
    """Its skills."""
    notes: tuple[str, ...] = ()
    """What the file has beyond skills, and what is not taken for that."""


def read_source_books(location: str) -> list[SourceBook]:
    """Read a file, or a folder of skills as coding agents load it.

    Args:
        location: A skillbook of any format, a store, a text with a marked block, or a folder with `SKILL.md` files.

    Raises:
        UsageError: There is nothing, or no skill can be read. The text says why, and what to do.
    """
    path = Path(location)
    if not has_scheme(location) and path.is_dir():
        return [_read(str(file)) for file in _skill_files(path)]
    if not has_scheme(location) and not path.exists():
        raise UsageError(
            f"there is no file {shown_location(location)!r}; "
            "give the path of a skillbook, a playbook or a Markdown list"
        )
    return [_read(location)]


def _skill_files(folder: Path) -> Sequence[Path]:
    found = [folder / SKILL_FILE] if (folder / SKILL_FILE).is_file() else sorted(folder.glob(f"*/{SKILL_FILE}"))
    if not found:
        raise UsageError(f"the folder {str(folder)!r} and its subfolders have no {SKILL_FILE}; give a file")
    return found


def _read(location: str) -> SourceBook:
    try:
        with _warnings() as notes:
            book = _copy_of_store(location) if is_store(location) else _read_file(Path(location), notes)
    except (SkillbookFileError, MarkedBlockError) as error:
        raise UsageError(f"{error}; nothing was imported from any file") from error
    except OSError as error:
        where = shown_location(location)
        raise UsageError(f"{where}: {error.strerror or error}; check that you may read it") from error
    return SourceBook(shown_location(location), book, tuple(notes))


def _copy_of_store(location: str) -> Skillbook:
    with Skillbook.open(location) as store:
        return Skillbook.loads(store.dumps())


def _read_file(path: Path, notes: list[str]) -> Skillbook:
    data = whole_file(path)
    try:
        if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b""):
            return Skillbook.loads(data.decode("utf-8-sig"))
        block = read_marked_block(data)
        text = _without_head(data.decode("utf-8-sig")) if block is None else block
        if block is not None:
            notes.append("only the marked block of ace was read")
        return Skillbook.from_text(text, clock=clock_from_environment())
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", path=path, place=f"byte {error.start}") from error
    except SkillbookFileError as error:
        raise error.at(path) from error
    except MarkedBlockError as error:
        raise MarkedBlockError(f"{path}: {error}") from error


def _without_head(text: str) -> str:
    """Return a text without the YAML head of a `SKILL.md`, whose lists are not skills. The lines keep their numbers."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    return text if end is None else "\n".join([""] * (end + 1) + lines[end + 1 :])


class _Collector(logging.Handler):
    """Keeps the warnings of the reader, which say what of a file has no place in a skillbook."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _warnings() -> Iterator[list[str]]:
    loggers = [logging.getLogger(f"ace.skillbook.{name}") for name in ("json_read", "state")]
    messages: list[str] = []
    collector = _Collector(messages)
    were_passed_on = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(collector)
        logger.propagate = False
    try:
        yield messages
    finally:
        for logger, was_passed_on in zip(loggers, were_passed_on, strict=True):
            logger.propagate = was_passed_on
            logger.removeHandler(collector)
