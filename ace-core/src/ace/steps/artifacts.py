"""`ArtifactDraftStep` and `ArtifactStep`: write a folder with human-readable files for each accepted version.

A draft of the folder is written before the commit, under a hidden name. It contains what the store does not keep: the
trace, the insights and the verdict. After the commit, the other files are added, and the folder is renamed. If the
process is killed in between, a later one can complete the folder: the draft contains the key of the sample, and the
store knows whether this sample was committed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace.arguments import checked_arguments, checked_class, file_path, one_of
from ace.atomic_file import PRIVATE, make_folder
from ace.calls.model_calls import redactor_for
from ace.context import ACEStepContext
from ace.json_fields import list_in
from ace.protocols.observers import ArtifactWritten, emit, is_observed
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.store import SampleKey
from ace.steps.context_access import is_learned, needed, run_of
from ace.steps.gate import VERDICT
from ace.steps.insights import found_insights
from ace.steps.outcomes import outcome_of_commit

if TYPE_CHECKING:
    from ace.protocols.gate import GateVerdict
    from ace.skillbook import Skillbook
    from ace.steps.apply import ApplyStep
    from ace.steps.outcomes import SampleOutcome

__all__ = ["Artifact", "ArtifactDraftStep", "ArtifactStep", "artifacts_in", "unfinished_artifacts"]

logger = logging.getLogger(__name__)

_DRAFT: Final = ".draft-"
_NAME: Final = re.compile(r"(?P<time>\d{8}T\d{6}\.\d{6}Z)-v(?P<version>\d+)")
_ABANDONED_SECONDS: Final = 3600.0
"""The age from which a draft whose sample was not committed is deleted; a younger one may be of another process."""


class Artifact(NamedTuple):
    """The folder of an accepted version."""

    version: int
    """The version of the skillbook."""
    folder: Path
    """The folder, with `playbook.md`, `decision.json`, `insights.json` and `trace.json`."""


@checked_arguments()
def artifacts_in(directory: str | Path) -> list[Artifact]:
    """Return the complete folders in a directory, oldest first.

    Args:
        directory: The directory; it need not exist.

    Example:
        >>> artifacts_in("no/such/directory")
        []
    """
    try:
        names = sorted(each.name for each in Path(directory).iterdir())
    except FileNotFoundError:
        return []
    found = [(match, name) for name in names if (match := _NAME.fullmatch(name)) is not None]
    return [Artifact(int(match["version"]), Path(directory) / name) for match, name in found]


@checked_arguments()
def unfinished_artifacts(directory: str | Path, skillbook: Skillbook) -> list[int]:
    """Return the accepted versions whose folders are not complete, because the process was killed.

    The next `ArtifactStep` completes them with its first trace.

    Args:
        directory: The directory of the folders; it need not exist.
        skillbook: The book, in a store; one without a store has no versions.
    """
    if skillbook.store is None:
        return []
    return sorted(
        version for draft in _drafts(Path(directory)) if (version := _committed_version(draft, skillbook)) is not None
    )


@checked_class
class ArtifactDraftStep:
    """Writes a draft of the folder for the version that the operations of a sample may become; see `ArtifactStep`.

    Args:
        directory: The directory of the folders.
        skillbook: The book that learns.
        apply: The step that applies the operations. If it rejects all of them, no draft is written.
        provenance: With `ids`, the folders contain neither traces nor insights.
        client: A client, whose keys are redacted.

    Raises:
        ValueError: `provenance` is unknown.
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(
        self,
        directory: str | Path,
        skillbook: Skillbook,
        *,
        apply: ApplyStep | None = None,
        provenance: Provenance = "full",
        client: object = None,
    ) -> None:
        file_path("directory", directory)
        one_of("provenance", provenance, PROVENANCES)
        self.directory = Path(directory)
        self.skillbook = self.lane_key = skillbook
        self.apply = apply
        self.provenance: Provenance = provenance
        self.client = client

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the draft, and return the context unchanged.

        Raises:
            OSError: A file cannot be written.
        """
        key = ctx.metadata.get("sample_key")
        if is_learned(ctx) or not isinstance(key, SampleKey) or self.skillbook.store is None:
            return ctx
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        omitted: Mapping[int, str] = {} if self.apply is None else self.apply.omitted(ctx)
        if all(each.type == "TAG" or index in omitted for index, each in enumerate(batch.operations)):
            return ctx
        draft = self.directory / _draft_name(key)
        shutil.rmtree(draft, ignore_errors=True)  # of an earlier attempt at the sample
        make_folder(self.directory)
        draft.mkdir(mode=0o700)
        found = found_insights(ctx)
        verdict: GateVerdict | None = ctx.metadata.get(VERDICT)
        redactor = redactor_for(self.client)
        decision = {
            "key": list(key),
            "trace": redactor.redact_name(str(ctx.metadata.get("trace_id", ""))),
            "task": "" if found is None else found.task_id,
            "accepted": True,
            "reason": "no gate" if verdict is None else verdict.reason,
            "before": {} if verdict is None else dict(verdict.before),
            "after": {} if verdict is None else dict(verdict.after),
        }
        _write_json(draft / "decision.json", decision)
        if self.provenance == "full":
            insights = [] if found is None else [*found.ready, *(each for _, each in found.earlier)]
            _write_json(draft / "insights.json", [each.as_record() for each in insights])
            _write_json(draft / "trace.json", redactor.redact_value(_trace_of(ctx)))
        return ctx


@checked_class
class ArtifactStep:
    """Writes a folder for each accepted version, such as `20261122T120000.123456Z-v18`.

    It contains `playbook.md` (all skills), `decision.json` (the verdict, the figures of the gate before and after, the
    operations, and those that were not applied), `insights.json` and `trace.json` (redacted). It is either complete or
    absent. The store remains the source of truth; the folder is a copy for reading, and is not synced to the disk.

    With the first trace, it also completes the folders of versions whose process was killed after the commit.

    Args:
        directory: The directory of the folders.
        skillbook: The book that learns; without a store, nothing is written.

    Example:
        >>> from ace import Skillbook
        >>> ArtifactStep("logs/artifacts", Skillbook()).directory.name
        'artifacts'
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, directory: str | Path, skillbook: Skillbook) -> None:
        file_path("directory", directory)
        self.directory = Path(directory)
        self.skillbook = self.lane_key = skillbook
        self._is_complete = False

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the folder, and return the context unchanged.

        Raises:
            OSError: A file cannot be written.
        """
        key = ctx.metadata.get("sample_key")
        draft = self.directory / _draft_name(key) if isinstance(key, SampleKey) else None
        if draft is not None and draft.is_dir():
            version = _committed_version(draft, self.skillbook)
            written = self._finish(draft, None if version is None else outcome_of_commit(self.skillbook, version))
            if written is not None and is_observed():
                trace_id = str(ctx.metadata.get("trace_id", ""))
                emit(ArtifactWritten(run_of(ctx), trace_id, written.version, str(written.folder)))
        if not self._is_complete:
            self._is_complete = True
            self.complete()
        return ctx

    def complete(self) -> list[Artifact]:
        """Complete the folders of versions whose process was killed after the commit.

        Returns:
            The folders that were completed.

        Raises:
            OSError: A file cannot be written.
        """
        if self.skillbook.store is None:
            return []
        completed = []
        for draft in _drafts(self.directory):
            version = _committed_version(draft, self.skillbook)
            if version is not None:
                written = self._finish(draft, outcome_of_commit(self.skillbook, version))
                completed += [] if written is None else [written]
            elif _age(draft) > _ABANDONED_SECONDS:
                shutil.rmtree(draft, ignore_errors=True)
        return completed

    def _finish(self, draft: Path, outcome: SampleOutcome | None) -> Artifact | None:
        """Complete and rename a draft; delete it if no skill was changed."""
        if outcome is None or outcome.version is None or not outcome.applied:
            shutil.rmtree(draft, ignore_errors=True)
            return None
        decision = _read_decision(draft)
        operations = [
            {"type": each.kind, "skill_id": each.skill_id, "section": each.section, "content": each.content}
            for each in outcome.applied
        ]
        omitted = [{"type": each.kind, "skill_id": each.skill_id, "reason": each.reason} for each in outcome.omitted]
        about = {"version": outcome.version, "at": outcome.at, **decision}
        _write_json(draft / "decision.json", {**about, "operations": operations, "omitted": omitted})
        book = self.skillbook if self.skillbook.version == outcome.version else self.skillbook.as_of(outcome.version)
        _write(draft / "playbook.md", f"{book.as_markdown().rstrip()}\n".encode())
        target = self.directory / f"{_compact_time(outcome.at)}-v{outcome.version}"
        try:
            draft.rename(target)
        except OSError:
            if not target.is_dir():
                raise
            shutil.rmtree(draft, ignore_errors=True)  # another process has completed it
        return Artifact(outcome.version, target)


def _draft_name(key: SampleKey) -> str:
    return _DRAFT + hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()[:16]


def _drafts(directory: Path) -> list[Path]:
    try:
        return sorted(each for each in directory.iterdir() if each.name.startswith(_DRAFT))
    except FileNotFoundError:
        return []


def _read_decision(draft: Path) -> Mapping[str, object]:
    """Return the record of a draft, which is empty if its process was killed while it wrote the file."""
    try:
        found = json.loads((draft / "decision.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


def _committed_version(draft: Path, skillbook: Skillbook) -> int | None:
    """Return the version that contains the sample of a draft; None if the sample was not committed."""
    key = list_in(_read_decision(draft), "key")
    store = skillbook.store
    match key:
        case [str() as run, int() as epoch, str() as sample] if store is not None:
            return store.committed_version(SampleKey(run, epoch, sample))
    return None


def _age(path: Path) -> float:
    """Return how long ago a folder was changed, in seconds."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _trace_of(ctx: ACEStepContext) -> object:
    from ace.roles.trace_reading import read_trace

    return {"id": str(ctx.metadata.get("trace_id", "")), **read_trace(ctx.trace)}


def _compact_time(at: str) -> str:
    """Return a time for the name of a folder, without colons, which some file systems do not allow."""
    digits = re.sub(r"[-:]", "", at.removesuffix("Z").replace("+00:00", ""))
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction[:6]:0<6}Z"


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    _write(path, f"{text}\n".encode("utf-8", "backslashreplace"))


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read. It need not be atomic: the folder is only used after it is renamed."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, PRIVATE)) as file:
        file.write(data)
