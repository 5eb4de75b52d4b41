"""Opens the skillbook of a command, and saves its changes.

A command that learns opens it with `opened_skillbook`, which checks first that the result can be saved there, and works
on a copy in a dry run; the other commands use `opened` and `open_or_start`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from ace.cli.console import note, visible
from ace.cli.errors import UsageError, near_file
from ace.cli.settings import clock_from_environment, load_settings
from ace.skillbook import Skillbook, SkillbookError, SkillbookFileError, shown_location
from ace.skillbook.book import TEXT_SUFFIXES
from ace.skillbook.locations import has_scheme
from ace.skillbook.stores import find_store

__all__ = [
    "SkillbookPlace",
    "check_place",
    "check_writable",
    "is_store",
    "location_of",
    "open_at",
    "open_or_start",
    "opened",
    "opened_skillbook",
    "save",
    "saved_elsewhere",
    "tell_if_large",
    "text_or_stdin",
]

_COMPANIONS = ("-wal", "-shm", "-journal")
_SEARCH_SUFFIX = ".search"
"""Of the file that `SkillSearch` writes."""
_FORBIDDEN = ("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY")
"""How the names of errors of SQLite begin that mean that a file may not be opened or written."""
_MOST_COPIES = 20
"""The number of times that a file is copied again because it changed during the copy."""
_LARGE = 16_000_000
"""The size of a file that is announced before it is opened, in bytes: reading it takes a quarter of a second."""


def location_of(skillbook: str | None) -> str:
    """Return the location of the skillbook: the value of the option, or else that of the settings.

    Args:
        skillbook: The value of `--skillbook`.

    Raises:
        UsageError: A setting is unknown or out of range.
    """
    return load_settings({"skillbook": skillbook}).skillbook


def text_or_stdin(text: str | None) -> str | None:
    """Return a text given as an argument, or standard input if the argument is `-`.

    Args:
        text: The argument; None if it was not given.

    Raises:
        UsageError: Standard input is not UTF-8.
    """
    if text != "-":
        return text
    try:
        # Read as bytes: the locale decides what the stream makes of other encodings.
        content = sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text (byte {error.start})") from error
    return content.replace("\r\n", "\n").rstrip("\r\n")


def is_store(location: str) -> bool:
    """Return whether a skillbook keeps a history.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: No store has this scheme.

    Example:
        >>> is_store("skills.db"), is_store("skills.json")
        (True, False)
    """
    try:
        return find_store(location) is not None
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextmanager
def opened(location: str) -> Iterator[Skillbook]:
    """Open an existing skillbook.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: It does not exist, or cannot be read. The text says why, and what to do.
    """
    path = Path(location)
    if not has_scheme(location) and path.is_dir():
        raise UsageError(
            f"the skillbook {shown_location(location)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}"
        )
    if not has_scheme(location) and not path.exists():
        raise _missing(path)
    with open_at(location) as book:
        yield book


@contextmanager
def open_or_start(location: str) -> Iterator[Skillbook]:
    """Open a skillbook to add to it, or create it.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: It cannot be read or created. The text says why, and what to do.
    """
    check_writable(location)
    if not has_scheme(location):
        folder = Path(location).absolute().parent
        if Path(location).is_dir():
            raise UsageError(
                f"{shown_location(location)!r} is a folder; give a file, such as {str(Path(location) / 'skills.db')!r}"
            )
        if not folder.is_dir():
            raise UsageError(f"no such folder for the skillbook: {str(folder)!r}; create it first")
    with open_at(location) as book:
        yield book


def check_writable(location: str) -> None:
    """Reject a text file, which cannot represent all data of a skillbook.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: It is a text.
    """
    if not has_scheme(location) and Path(location).suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(
            f"the skillbook {shown_location(location)!r} is a text file, which cannot be changed; "
            f"import it into a store with `ace skillbook import {shown_location(location)} --skillbook skills.db`"
        )


def save(book: Skillbook, location: str, *, author: str) -> int | None:
    """Save the collected changes: in a store as one version, in a JSON file on top of its newest state.

    Args:
        location: Where it was opened.
        author: Who made the changes, for the history.

    Returns:
        The version of the store; None for a JSON file.
    """
    if book.store is None:
        book.save_to_file(location, merge=True)
    else:
        book.commit(author=author)
    return book.version


@contextmanager
def open_at(location: str) -> Iterator[Skillbook]:
    """Open a skillbook or create it, without further checks.

    Args:
        location: Its file, or `scheme://...`.

    Raises:
        UsageError: No store has this scheme, or it cannot be read. The text says why, and what to do.
    """
    is_store(location)  # says so where no store has the scheme
    clock = clock_from_environment()
    try:
        book = Skillbook.open(location, clock=clock)
    except SkillbookFileError as error:
        advice = "the file was not changed: repair it, or give another one"
        if _is_forbidden(error.__cause__):
            advice = "check that you may read and write it, and its folder"
        raise UsageError(f"{error}; {advice}") from error
    except OSError as error:
        where = shown_location(location)
        raise UsageError(f"{where}: {error.strerror or error}; check that you may read it") from error
    with book:
        yield book


def _is_forbidden(cause: BaseException | None) -> bool:
    """Return whether a file could not be opened because the user may not read or write it."""
    of_sqlite = str(getattr(cause, "sqlite_errorname", ""))
    return isinstance(cause, PermissionError) or of_sqlite.startswith(_FORBIDDEN)


@dataclass(frozen=True, slots=True)
class SkillbookPlace:
    """A file, or a location that only a store can interpret, such as `acme://team/skills`."""

    location: str
    """The location as the user gave it."""

    def __str__(self) -> str:
        return shown_location(self.location)

    @property
    def file(self) -> Path | None:
        """The file; None for the location of a store."""
        return None if has_scheme(self.location) else Path(self.location)

    @property
    def keeps_history(self) -> bool:
        """Whether it is in a store, which commits every change immediately and records the progress of runs.

        Raises:
            UsageError: No store has its scheme.
        """
        return is_store(self.location)

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return str(self) if self.file is None else self.file.name

    @property
    def failures_file(self) -> Path | None:
        """The file of the failed samples; None if there is no folder for it."""
        return None if self.file is None else self.file.with_name("failures.jsonl")

    @property
    def validation_log(self) -> Path | None:
        """The log next to a store with which a validated training can be resumed; None where there is none."""
        return self._beside(".validation.jsonl") if self.keeps_history else None

    @property
    def validation_answers(self) -> Path | None:
        """The file next to a store with the answers to validation samples; None where there is none."""
        return self._beside(".answers.jsonl") if self.keeps_history else None

    def own_files(self) -> frozenset[Path]:
        """Return the files that belong to the skillbook, which are not traces."""
        own = [self.file, self.failures_file, self.validation_log, self.validation_answers]
        beside = map(self._beside, [*_COMPANIONS, _SEARCH_SUFFIX])
        return frozenset(path.resolve() for path in [*own, *beside] if path is not None)

    def existing_files(self) -> list[Path]:
        """Return the file and the existing files of SQLite next to it, without shared memory."""
        files = [self.file, *(self._beside(suffix) for suffix in _COMPANIONS if suffix != "-shm")]
        return [file for file in files if file is not None and file.exists()]

    def names(self) -> list[Path]:
        """Return the file and the files that a run writes next to it, which may not exist."""
        companions = _COMPANIONS if self.keeps_history else ()
        beside = [self.validation_log, self.validation_answers] if self.keeps_history else []
        return [path for path in (self.file, *map(self._beside, companions), *beside) if path is not None]

    def _beside(self, suffix: str) -> Path | None:
        return None if self.file is None else self.file.with_name(self.file.name + suffix)


@contextmanager
def opened_skillbook(
    place: SkillbookPlace, *, is_dry_run: bool = False, must_exist: bool = False, quiet: bool = False
) -> Iterator[tuple[Skillbook, SkillbookPlace]]:
    """Open a skillbook, or create it. If the file is large, a line says that it is being opened.

    Args:
        place: Where it is: a store (`.db`, or what a plugin gives), or a JSON file.
        is_dry_run: Whether to work on a copy, so that nothing is written.
        must_exist: Whether a skillbook that is not there is an error. (Of a `scheme://` only its store knows that.)
        quiet: Whether to print nothing, since the result is for a program.

    Yields:
        The book, and the place that it is open at.

    Raises:
        UsageError: The skillbook does not exist, cannot be read, or cannot be saved there.
    """
    check_place(place, is_dry_run=is_dry_run, must_exist=must_exist)
    if not quiet:
        tell_if_large(place)
    with _copied(place) if is_dry_run else nullcontext(place) as used, open_at(used.location) as book:
        if not is_dry_run and not place.keeps_history:
            _check_save(book, place)
        yield book, used


def tell_if_large(place: SkillbookPlace) -> None:
    """Say that a file is being opened, if that takes so long that the user would wonder whether anything happens.

    Args:
        place: Where the skillbook is, or will be.
    """
    if place.file is None:
        return
    try:
        size = place.file.stat().st_size
    except OSError:  # the file is not there yet, or `check_place` says what is wrong with its name
        return
    if size >= _LARGE:
        note(f"ace: opening {visible(place.name)} ({size / 1e6:.0f} MB)")


def check_place(place: SkillbookPlace, *, is_dry_run: bool = False, must_exist: bool = False) -> None:
    """Reject a location where a skillbook cannot be saved, before any model call.

    Args:
        place: Where it is, or will be.
        is_dry_run: Whether nothing is written.
        must_exist: Whether a skillbook that is not there is an error.

    Raises:
        UsageError: The place cannot hold a skillbook, or there is none.
    """
    if place.file is None:
        return
    if not is_dry_run and not place.file.parent.is_dir():
        raise UsageError(f"no such folder for the skillbook: {str(place.file.parent)!r}; create it first")
    _check_names(place)
    _check_side_files(place)
    if not is_dry_run and not place.file.exists():  # one that is there is checked when it is open
        _check_folder(place.file.parent)
    _check_file(place.file, must_exist=must_exist)


def _check_names(place: SkillbookPlace) -> None:
    """Reject a name that the file system does not accept, for the skillbook or a file next to it."""
    for path in place.names():
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(
                f"the skillbook cannot be at {shown_location(place.location)!r} ({reason}); give --skillbook elsewhere"
            ) from error


def _check_side_files(place: SkillbookPlace) -> None:
    """Reject a link where lines would be appended to a file: a cloned project can contain one."""
    for path in (place.failures_file, place.validation_log, place.validation_answers):
        if path is not None and path.is_symlink():
            raise UsageError(
                f"{visible(str(path))} is a link to {visible(str(path.resolve()))}, which is not followed; "
                "remove the link, or give --skillbook elsewhere"
            )


def _check_file(path: Path, *, must_exist: bool) -> None:
    if path.suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(f"the skillbook {str(path)!r} is a text file; learn into a .db or .json file")
    if path.is_dir():
        raise UsageError(f"the skillbook {str(path)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}")
    if must_exist and not path.exists():
        raise _missing(path)


def _missing(path: Path) -> UsageError:
    meant = near_file(path) or ";"
    return UsageError(
        f"no such skillbook: {shown_location(str(path))!r}{meant} learn one with `ace learn`, or give --skillbook"
    )


def saved_elsewhere(book: Skillbook) -> Path:
    """Save a skillbook to a new temporary folder, because it cannot be saved to its own file.

    Args:
        book: The skillbook.

    Returns:
        The new file.

    Raises:
        OSError: It cannot be saved there either.
    """
    # The own name may be what cannot be written.
    target = Path(tempfile.mkdtemp(prefix="ace-skillbook-")) / "skills.json"
    book.save_to_file(target)
    return target


def _check_folder(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"the skillbook cannot be saved in the folder {str(folder)!r} ({error.strerror}); "
            "check that you may write there, or choose another place with --skillbook"
        ) from error


def _check_save(book: Skillbook, place: SkillbookPlace) -> None:
    """Check that a file can be written: this would otherwise fail at the first checkpoint, after model calls."""
    try:
        book.check_save(place.location, merge=True)
    except (OSError, SkillbookError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the skillbook {place.name!r} cannot be saved ({reason}); "
            "check that you may write there, or choose another place with --skillbook"
        ) from error


@contextmanager
def _copied(place: SkillbookPlace) -> Iterator[SkillbookPlace]:
    with tempfile.TemporaryDirectory(prefix="ace-dry-run-") as name:
        folder = Path(name)
        if place.file is None:
            copy = folder / "skills.db"
            with open_at(place.location) as book:
                book.save_to_file(copy)
        else:
            copy = folder / place.file.name
            _copy_file(place, copy)
        yield SkillbookPlace(str(copy))


def _copy_file(place: SkillbookPlace, copy: Path) -> None:
    """Copy a consistent state of a skillbook without changing any file next to it.

    Another process may write to a store during the copy, so its file and its log must not be copied one after the
    other: SQLite copies both while holding its locks. Without a log, or if SQLite cannot read the store, the files are
    copied directly, and again if one of them changed during the copy.
    """
    for _ in range(_MOST_COPIES):
        before = _states(place)
        if len(before) > 1 and _is_copied_by_sqlite(next(iter(before)), copy):
            return
        with suppress(FileNotFoundError):  # the last writer has just removed its log
            for path in before:
                shutil.copyfile(path, copy.with_name(path.name))
            if _states(place) == before:
                return
        for path in copy.parent.iterdir():
            path.unlink()
    raise UsageError(f"the skillbook {place.name!r} changes too often to be copied; try again later")


def _states(place: SkillbookPlace) -> dict[Path, tuple[int, int, int]]:
    """Return the state of each file of a skillbook, to detect changes; the skillbook itself comes first."""
    found = {}
    for file in place.existing_files():
        with suppress(FileNotFoundError):
            status = file.stat()
            found[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def _is_copied_by_sqlite(file: Path, copy: Path) -> bool:
    """Copy a store with its log; False if it cannot be read in this way, as in a folder that is read-only."""
    import sqlite3

    try:
        with (
            closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
    except sqlite3.Error:
        return False
    return True
