"""`SkillbookPlace`: where the skillbook of a run is, and the files next to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ace.cli.skillbooks.opening import is_store
from ace.skillbook.stores import has_scheme, shown_location

__all__ = ["SkillbookPlace"]

_COMPANIONS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class SkillbookPlace:
    """A file, or a place that only a store knows, such as `acme://team/skills`."""

    location: str
    """As the user gave it."""

    def __str__(self) -> str:
        return shown_location(self.location)

    @property
    def file(self) -> Path | None:
        """The file; None where there is none."""
        return None if has_scheme(self.location) else Path(self.location)

    @property
    def keeps_history(self) -> bool:
        """Whether it is in a store, which keeps every change at once, and what each run has done.

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
        """The file of the failed samples; None where there is no folder for it."""
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
        return frozenset(each.resolve() for each in [*own, *map(self._beside, _COMPANIONS)] if each is not None)

    def existing_files(self) -> list[Path]:
        """Return the file and what SQLite may have put beside it, as far as they exist; shared memory is omitted."""
        files = [self.file, *(self._beside(suffix) for suffix in _COMPANIONS if suffix != "-shm")]
        return [each for each in files if each is not None and each.exists()]

    def names(self) -> list[Path]:
        """Return the file and what a run puts beside it, whether or not they are there."""
        companions = _COMPANIONS if self.keeps_history else ()
        beside = [self.validation_log, self.validation_answers] if self.keeps_history else []
        return [each for each in (self.file, *map(self._beside, companions), *beside) if each is not None]

    def _beside(self, suffix: str) -> Path | None:
        return None if self.file is None else self.file.with_name(self.file.name + suffix)
