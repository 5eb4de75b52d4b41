"""The steps that write a skillbook to files: copies, its JSON file, a managed block, and Markdown."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class, file_path, one_of, whole_number, with_method
from ace._internal.atomic_file import replace_file
from ace._internal.managed_block import write_managed_block
from ace.calls.model_calls import current_call_scope
from ace.calls.sample_context import run_of
from ace.context import ACEStepContext
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.errors import SkillbookError, SkillbookStoreError
from ace.steps.recent_reflections import recent_reflections_after

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["CheckpointStep", "ExportSkillbookMarkdownStep", "PersistStep", "SaveSkillbookStep"]

_SHORT = 0.1
"""Seconds; a save up to this long is short compared with the model calls of a sample."""
_PATIENCE = 10
"""After a longer save, the next one waits this many times as long as that took."""
_ADVICE = "give the skillbook that the run learns into"


@checked_class
class CheckpointStep:
    """Writes `checkpoint_<index>.json` and `latest.json`, at intervals of samples and at the end of the run.

    Each is a skillbook in JSON with an additional field, `checkpoint`, about the last sample that it contains:
    `run_id`, `epoch`, `step` (its position in the epoch), `sample` (its position in the run), `written_at` and
    `recent_reflections`, which is empty in a run without a `reflection_window`.

    Args:
        directory: The directory of the files; it is created if necessary.
        skillbook: The book to copy.
        interval: The number of samples between two copies.
        provenance: With `ids`, the recent reflections are omitted, because they may quote a trace.

    Raises:
        ValueError: The interval is below 1, or `provenance` is unknown.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(
        self, directory: str | Path, skillbook: Skillbook, *, interval: int = 10, provenance: Provenance = "full"
    ) -> None:
        file_path("directory", directory)
        with_method("skillbook", skillbook, "dumps", advice=_ADVICE)
        self.directory = Path(directory)
        self.skillbook = self.lane_key = skillbook
        self.interval = whole_number("interval", interval, of="samples")
        one_of("provenance", provenance, PROVENANCES)
        self.provenance: Provenance = provenance
        # By run, since runs may overlap. Only accessed in the lane of the book, and after the last sample of a run.
        self._last: dict[str, Mapping[str, object]] = {}

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the files at the interval; the context is returned unchanged."""
        self._last[run_of(ctx)] = {
            "run_id": run_of(ctx),
            "epoch": ctx.epoch,
            "step": ctx.step_index,
            "sample": ctx.global_sample_index,
            "recent_reflections": recent_reflections_after(ctx) if self.provenance == "full" else (),
        }
        if ctx.global_sample_index % self.interval == 0:
            self._write(ctx.global_sample_index, self._last[run_of(ctx)])
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more, because duplicates may have been merged since the last checkpoint."""
        self._write(last_index, self._last.pop(current_call_scope().run_id, {"sample": last_index}))

    def write(self, index: int) -> None:
        """Write both files now, each atomically.

        Args:
            index: The position of the last sample in the run, from 1.
        """
        self._write(index, {"sample": index})

    def _write(self, index: int, about: Mapping[str, object]) -> None:
        about = {**about, "written_at": datetime.now(UTC).isoformat()}
        # Appended to the text of the book, which may be large.
        book = self.skillbook.dumps().rstrip().removesuffix("}").rstrip()
        data = f'{book},\n  "checkpoint": {json.dumps(about)}\n}}\n'.encode()
        replace_file(self.directory / f"checkpoint_{index}.json", data)
        replace_file(self.directory / "latest.json", data)


@checked_class
class SaveSkillbookStep:
    """Saves a skillbook to its JSON file after each sample, so that a killed run loses nothing that it has reported.

    If a save takes longer than a tenth of a second, the book is saved less often: saving then takes at most a tenth of
    the time, and at most `interval` samples are unsaved. The end of a run always saves.

    What another process has written into the file in the meantime is kept: the changes of this run are applied on top.

    Args:
        path: The JSON file.
        skillbook: The book to save.
        interval: The maximum number of unsaved samples.

    Raises:
        ValueError: The interval is below 1.
    """

    requires = frozenset({"global_sample_index"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: str | Path, skillbook: Skillbook, *, interval: int = 10) -> None:
        file_path("path", path)
        with_method("skillbook", skillbook, "save_to_file", advice=_ADVICE)
        self.path = Path(path)
        self.skillbook = self.lane_key = skillbook
        self.interval = whole_number("interval", interval, of="samples")
        # Only accessed in the lane of the book, and after the last sample.
        self._unsaved = 0
        self._seconds = 0.0
        self._saved_at = 0.0

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Save at the interval; the context is returned unchanged."""
        self._unsaved += 1
        waited = time.monotonic() - self._saved_at
        if self._seconds <= _SHORT or waited >= _PATIENCE * self._seconds or self._unsaved >= self.interval:
            self.save()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Save the remaining changes."""
        self.save()

    def save(self) -> None:
        """Save now.

        Raises:
            SkillbookStoreError: The file cannot be written. Neither it nor the book in memory changes.
        """
        started = time.monotonic()
        try:
            self.skillbook.save_to_file(self.path, merge=True)
        except (OSError, SkillbookError) as error:
            raise SkillbookStoreError(f"the skillbook {self.path} cannot be saved: {error}") from error
        self._saved_at = time.monotonic()
        self._seconds = self._saved_at - started
        self._unsaved = 0


@checked_class
class PersistStep:
    """Writes the skills into a managed block of a text file such as CLAUDE.md or AGENTS.md.

    The rest of the file does not change; the file is created if it does not exist. If the name of the target ends in
    `.json`, the skillbook is written as JSON instead.

    Args:
        target_path: The file.
        skillbook: The book to write out.
        overwrite: Whether a `.json` target is this step's own copy, to be replaced even if it contains another
            skillbook. By default, another skillbook is an error, raised here and not after the first sample has been
            paid for.

    Raises:
        SkillbookChangedError: The `.json` target contains a skillbook that this one was not loaded from.
        SkillbookFileError: The `.json` target is not a skillbook.
        OSError: The `.json` target cannot be written.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, target_path: str | Path, skillbook: Skillbook, *, overwrite: bool = False) -> None:
        file_path("target_path", target_path)
        with_method("skillbook", skillbook, "as_markdown", advice=_ADVICE)
        self.target_path = Path(target_path)
        self.skillbook = self.lane_key = skillbook
        self.overwrite = overwrite
        if self._is_json:
            skillbook.check_save(self.target_path, overwrite=overwrite)

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the skills; the context is returned unchanged."""
        self.write()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more, because duplicates may have been merged since the last sample."""
        self.write()

    def write(self) -> None:
        """Write now.

        Raises:
            ManagedBlockError: The marks in the file do not enclose exactly one block.
            SkillbookFileError: The `.json` target exists and is not a skillbook.
            SkillbookChangedError: Another writer has changed the `.json` target since it was written here.
            OSError: The file cannot be written. After any of these errors it is unchanged.
        """
        if self._is_json:
            self.skillbook.save_to_file(self.target_path, overwrite=self.overwrite)
        else:
            write_managed_block(self.target_path, self.skillbook.as_markdown())

    @property
    def _is_json(self) -> bool:
        return self.target_path.suffix.lower() == ".json"


@checked_class
class ExportSkillbookMarkdownStep:
    """Writes the active skills to a Markdown file. The whole file is replaced each time.

    Args:
        path: The file.
        skillbook: The book to write out.
    """

    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"

    def __init__(self, path: str | Path, skillbook: Skillbook) -> None:
        file_path("path", path)
        with_method("skillbook", skillbook, "as_markdown", advice=_ADVICE)
        self.path = Path(path)
        self.skillbook = self.lane_key = skillbook

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the skills; the context is returned unchanged."""
        self.write()
        return ctx

    def end_run(self, last_index: int, *, interrupted: bool = False) -> None:
        """Write once more, because duplicates may have been merged since the last sample."""
        self.write()

    def write(self) -> None:
        """Write now, atomically."""
        replace_file(self.path, f"{self.skillbook.as_markdown().rstrip()}\n".encode())
