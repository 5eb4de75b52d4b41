"""Opens the skillbook of a run; for a dry run, a copy that is thrown away."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ace.cli.errors import UsageError
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.skillbooks.opening import open_at
from ace.skillbook import SkillbookError
from ace.skillbook.book import TEXT_SUFFIXES, Skillbook

__all__ = ["opened_skillbook", "saved_elsewhere"]


@contextmanager
def opened_skillbook(
    place: SkillbookPlace, *, is_dry_run: bool = False, must_exist: bool = False
) -> Iterator[tuple[Skillbook, SkillbookPlace]]:
    """Open a skillbook, or start one.

    Args:
        place: Where it is: a store (`.db`, or what a plugin gives), or a JSON file.
        is_dry_run: Whether to work on a copy, so that nothing is written.
        must_exist: Whether a skillbook that is not there is an error. (Of a `scheme://` only its store knows that.)

    Yields:
        The book, and the place that it is open at.

    Raises:
        UsageError: The place cannot hold a skillbook, or there is none, or it is no skillbook.
    """
    if place.file is not None:
        _check_file(place.file, must_exist=must_exist)
        if not is_dry_run and not place.file.parent.is_dir():
            raise UsageError(f"there is no folder {str(place.file.parent)!r} for the skillbook; make it first")
    with _copied(place) if is_dry_run else nullcontext(place) as used, open_at(used.location) as book:
        if not is_dry_run and not place.keeps_history:
            _check_save(book, place)
        yield book, used


def _check_file(path: Path, *, must_exist: bool) -> None:
    if path.suffix.lower() in TEXT_SUFFIXES:
        raise UsageError(f"the skillbook {str(path)!r} is a text; learn into a .db or .json file")
    if path.is_dir():
        raise UsageError(f"the skillbook {str(path)!r} is a folder; give a file, such as {str(path / 'skills.db')!r}")
    if must_exist and not path.exists():
        raise UsageError(f"there is no skillbook {str(path)!r}; learn one with `ace learn`, or give --skillbook")


def saved_elsewhere(book: Skillbook) -> Path:
    """Save a skillbook that its own file does not take in a new temporary folder, so that it is not lost.

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


def _check_save(book: Skillbook, place: SkillbookPlace) -> None:
    """A file is first written at a checkpoint: without this, all of a run could be paid for and lost."""
    try:
        book.check_save(place.location, merge=True)
    except (OSError, SkillbookError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"the skillbook {place.name!r} cannot be saved ({reason}); "
            "see to it that you may write there, or give --skillbook elsewhere"
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
            for each in place.existing_files():
                shutil.copyfile(each, folder / each.name)
        yield SkillbookPlace(str(copy))
