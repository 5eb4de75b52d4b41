"""`Skillbook`: the skills that evolve, in memory, in a JSON file or in a store with history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace.arguments import checked_arguments
from ace.collection_pause import paused_collection
from ace.durable_file import check_can_write, real_path
from ace.skillbook.contents import BookContents, state_from
from ace.skillbook.errors import SkillbookFileError
from ace.skillbook.journal import Journal
from ace.skillbook.json_file import JsonFiles, whole_file
from ace.skillbook.json_read import read_text
from ace.skillbook.reading import Clock, system_clock
from ace.skillbook.selection import Ranker, TokenCounter, estimate_tokens
from ace.skillbook.skill_folder import write_skill_folder
from ace.skillbook.state import BookState
from ace.skillbook.stores import find_store, has_scheme, shown_location
from ace.skillbook.versioned import VersionedSkillbook
from ace.skillbook.writing import logger

if TYPE_CHECKING:
    from ace.skillbook.store import SkillbookStore
    from ace.skillbook.stores import StoreKind

TEXT_SUFFIXES = (".md", ".markdown", ".txt")


class Skillbook(VersionedSkillbook):
    """A collection of skills. Thread-safe.

    Args:
        clock: Gives the time of each change.
        count_tokens: Counts tokens for `as_prompt(budget_tokens=...)`.
        ranker: Scores skills for `as_prompt(query=...)`.

    Example:
        >>> book = Skillbook()
        >>> book.add_skill("geography", "Name the country before the city.").id
        'geography-00001'
        >>> print(book.as_prompt())
        ## geography
        - [geography-00001] Name the country before the city.
    """

    @checked_arguments()
    def __init__(
        self,
        *,
        clock: Clock = system_clock,
        count_tokens: TokenCounter = estimate_tokens,
        ranker: Ranker | None = None,
    ) -> None:
        super().__init__(clock=clock, count_tokens=count_tokens, ranker=ranker)
        self._files = JsonFiles()
        self._store_place: Path | str | None = None

    @classmethod
    @checked_arguments()
    def open(cls, path: str | Path, *, store: SkillbookStore | None = None, clock: Clock = system_clock) -> Skillbook:
        """Open the skillbook of a file, or start one there.

        Args:
            path: `.db`, `.sqlite` or `.sqlite3` is a store with history: every change is on the disk when
                the call returns. Plugins add stores of their own, such as `acme://team/skills`. Anything else
                is a JSON file, which `save_to_file` writes.
            store: Another store than SQLite; the path is only a name then.
            clock: Gives the time of each change.

        Raises:
            SkillbookFileError: If the file is no skillbook. It is left as it is.
            ValueError: If no store has the scheme of the path.
        """
        kind = None if store is not None else find_store(path)
        if kind is not None:
            store = kind.open(str(path))
        book = cls(clock=clock)
        if store is not None:
            book._bind(path, store)
        elif (file := Path(path)).exists():
            book._read(file)
        else:
            book._files.home = real_path(file)
            book._journal = Journal(book._state)
        return book

    @classmethod
    @checked_arguments()
    def load_from_file(cls, path: str | Path) -> Skillbook:
        """Read a skillbook: JSON, a store, or a playbook or Markdown text (`.md`, `.txt`).

        Raises:
            FileNotFoundError: If there is no such file.
            SkillbookFileError: If it is no skillbook; the error names file, place and reason.
        """
        if not has_scheme(path) and not real_path(path).exists():
            raise FileNotFoundError(f"there is no skillbook {str(path)!r}")
        return cls.open(path)

    @checked_arguments()
    def save_to_file(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Write the skillbook, in one step that survives a crash.

        A new file can be read by its owner only; an existing one keeps its permissions.

        Args:
            path: A JSON file, or a new store (`.db`). An existing store is never replaced.
            merge: Add to what others have written into a JSON file, instead of raising an error: the changes since
                this book was loaded are made again on the newest file. A file that this book was not loaded from
                gets the skills that it lacks.
            overwrite: Replace the skillbook in a JSON file, whatever it holds.

        Raises:
            SkillbookChangedError: If the file changed since it was read or saved here, or holds a skillbook that
                this one was not loaded from.
            SkillbookFileError: If there is a file that is not a skillbook; it is never overwritten.
            FileExistsError: If there is another store.
            ValueError: If both `merge` and `overwrite` are given, or the path is that of a text.
            OSError: If it cannot be written; the old file stays.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "skills.json"
            >>> monday, tuesday = Skillbook(), Skillbook()
            >>> monday.save_to_file(path)
            >>> _ = tuesday.add_skill("geography", "Name the country before the city.")
            >>> tuesday.save_to_file(path)
            Traceback (most recent call last):
            ...
            ace.skillbook.errors.SkillbookChangedError: ...skills.json: there is a skillbook already, which this ...
            >>> tuesday.save_to_file(path, merge=True)
        """
        kind = self._kind_to_save(path, merge=merge, overwrite=overwrite)
        with self._lock:
            if kind is not None:
                self._save_to_store(path)
                return
            path = Path(path)
            if merge:
                at_home = self._binding is None and real_path(path) == self._files.home
                journal = self._journal if at_home and self._journal is not None else Journal(self._state)
                written, refused = self._files.merge(path, self._state, journal)
                for event, reason in refused:
                    logger.warning("A change was left out of %s: %s: %s", path, event, reason)
                self._in_step(path, written)
            else:
                self._files.write(path, self._state, overwrite=overwrite)
                self._in_step(path, self._state)

    @checked_arguments()
    def check_save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Find out whether `save_to_file` would refuse a path, before something is paid for that cannot be saved.

        Nothing is written. A later save may still fail, for instance because the disk is full by then.

        Args:
            path: Where the skillbook is to be saved.
            merge: As for `save_to_file`.
            overwrite: As for `save_to_file`.

        Raises:
            SkillbookError: What `save_to_file` would raise.
            ValueError: Likewise.
            OSError: Likewise: the name is too long, the folder is read-only, a folder is in the place of the file.
        """
        kind = self._kind_to_save(path, merge=merge, overwrite=overwrite)
        with self._lock:
            if kind is None:
                self._files.check(Path(path), merge=merge, overwrite=overwrite)
            elif self._binding is not None and _store_place(path) == self._store_place:
                self._binding.check_open()
            elif not has_scheme(path):
                if Path(path).exists():
                    raise _store_exists(path)
                check_can_write(path)

    @checked_arguments()
    def save_skill_folder(self, folder: str | Path, *, name: str, description: str) -> Path:
        """Write the active skills as the `SKILL.md` of a folder that coding agents load. Returns the file."""
        return write_skill_folder(folder, self.as_markdown(), name, description)

    @classmethod
    def loads(cls, text: str) -> Skillbook:
        """Read a skillbook from the text of a JSON file.

        Raises:
            SkillbookFileError: If it is none; the error names place and reason.
        """
        with paused_collection():
            return cls._holding(read_text(text))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Skillbook:
        """Read a skillbook from the dict of a JSON file.

        Raises:
            SkillbookFileError: If it is none; the error names place and reason.
        """
        try:
            return cls._holding(read_text(json.dumps(data)))
        except (TypeError, RecursionError) as error:
            raise SkillbookFileError(f"not made of JSON values: {error}") from error

    @classmethod
    @checked_arguments()
    def from_text(cls, text: str, *, clock: Clock = system_clock) -> Skillbook:
        """Read a playbook (`## SECTION`, `[id] helpful=5 harmful=0 :: content`) or Markdown bullets.

        Raises:
            SkillbookFileError: If there is no skill in it, or an id is there twice.
        """
        from ace.skillbook.text_formats import read_text_book  # for those who use text

        return cls._holding(read_text_book(text, clock().isoformat(timespec="microseconds")))

    def close(self) -> None:
        """Commit what was deferred and release the store; a JSON or memory book has nothing to release.

        The skills can still be read then, but not be changed.
        """
        with self._lock:
            if self._binding is not None and not self._binding.is_closed:
                self.commit()
                self._binding.close()

    def __enter__(self) -> Skillbook:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @classmethod
    def _holding(cls, contents: BookContents) -> Skillbook:
        book = cls()
        book._state.become(state_from(contents))
        return book

    def _read(self, path: Path) -> None:
        if path.suffix.lower() in TEXT_SUFFIXES:
            self._state.become(state_from(_read_text_file(path, self._now())))
            return
        with paused_collection():
            self._state.become(state_from(self._files.read(path)))
        self._journal = Journal(self._state)

    def _bind(self, location: str | Path, store: SkillbookStore) -> None:
        from ace.skillbook.binding import StoreBinding  # for those who use a store

        binding = StoreBinding(store, location)
        try:
            binding.load(self._state)
        except BaseException:
            binding.close()
            raise
        self._binding = binding
        self._journal = Journal(self._state)
        self._store_place = _store_place(location)

    def _save_to_store(self, location: str | Path) -> None:
        if self._binding is not None and _store_place(location) == self._store_place:
            self.commit()
            return
        if not has_scheme(location) and Path(location).exists():
            raise _store_exists(location)
        with type(self).open(location, clock=self._clock) as copy:
            if copy.version:
                raise _store_exists(location)
            copy.import_skills(self)

    def _kind_to_save(self, path: str | Path, *, merge: bool, overwrite: bool) -> StoreKind | None:
        """Return the kind of store to save to, or None for a JSON file; refuse what cannot be saved at all."""
        if merge and overwrite:
            raise ValueError("merge=True adds to the file and overwrite=True replaces it; give one of them")
        kind = find_store(path)
        if kind is None and Path(path).suffix.lower() in TEXT_SUFFIXES:
            raise ValueError(f"{path}: a skillbook is saved as .json or .db; for text use as_markdown or as_playbook")
        return kind

    def _in_step(self, path: Path, written: BookState) -> None:
        """Go on from what was written to the file that the journal refers to."""
        if self._binding is None and real_path(path) == self._files.home:
            if written is not self._state:
                self._state.become(written)
            self._journal = Journal(self._state)


def _store_exists(location: str | Path) -> FileExistsError:
    return FileExistsError(
        f"{shown_location(location)}: there is a store already; open it and use import_skills to add to it"
    )


def _store_place(location: str | Path) -> str | Path:
    """Return what two locations of the same store have in common, whatever the working folder is by then."""
    return location if has_scheme(location) else real_path(location)


def _read_text_file(path: Path, at: str) -> BookContents:
    from ace.skillbook.text_formats import read_text_book  # for those who use text

    try:
        return read_text_book(whole_file(path).decode("utf-8-sig"), at)
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", path=path, place=f"byte {error.start}") from error
    except SkillbookFileError as error:
        raise error.at(path) from error
