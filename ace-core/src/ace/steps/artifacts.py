"""`ArtifactDraftStep` and `ArtifactStep`: write a folder with human-readable files for each accepted version.

A draft of the folder is written before the commit, under a hidden name. It contains what the store does not keep: the
trace, and in a file beside it the verdict, the insights and the key of the sample. After the commit, the other files
are added, the folder is renamed, and the file beside it is deleted. If the process is killed in between, a later one
can complete the folder: it finds the key, and the store knows whether this sample was committed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace.arguments import checked_arguments, checked_class, file_path, one_of
from ace.atomic_file import PRIVATE, make_folder
from ace.calls.model_calls import redactor_for
from ace.context import ACEStepContext
from ace.insights import Insight
from ace.json_fields import Record, list_in, mapping_in
from ace.protocols.observers import ArtifactWritten, emit, is_observed
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.store import SampleKey
from ace.steps.apply import ARTIFACT
from ace.steps.context_access import is_learned, needed, run_of
from ace.steps.gate import VERDICT
from ace.steps.insights import FoundInsights, found_insights, with_outcome
from ace.steps.outcomes import outcome_of_commit, outcome_of_sample

if TYPE_CHECKING:
    from ace.protocols.gate import GateVerdict
    from ace.skillbook import Skillbook
    from ace.steps.apply import ApplyStep
    from ace.steps.outcomes import SampleOutcome

__all__ = ["Artifact", "ArtifactDraftStep", "ArtifactStep", "artifacts_in", "unfinished_artifacts"]

logger = logging.getLogger(__name__)

_DRAFT: Final = ".draft-"
_NAME: Final = re.compile(r"(?P<time>\d{8}T\d{6}\.\d{6}Z)-v(?P<version>\d+)")
_EXPANDED: Final = 2
"""How many levels of a JSON file have a line for each item. Deeper ones are compact, and quicker to write."""
_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
_ABANDONED_SECONDS: Final = 3600.0
"""The age from which a draft whose sample was not committed is deleted; a younger one may be of another process."""


class _Insights(NamedTuple):
    """The insights of a sample, see `FoundInsights`."""

    ready: Sequence[Insight] = ()
    earlier: Sequence[tuple[str, Insight]] = ()

    def as_record(self) -> dict[str, object]:
        return {
            "ready": [each.as_record() for each in self.ready],
            "earlier": [[id, each.as_record()] for id, each in self.earlier],
        }

    @classmethod
    def from_record(cls, record: Record) -> _Insights:
        earlier = [each for each in list_in(record, "earlier") if isinstance(each, list)]
        return cls(
            [Insight.from_record(each) for each in list_in(record, "ready")],
            [(str(id), Insight.from_record(each)) for id, each in earlier],
        )


class _Draft(NamedTuple):
    """A folder that is not complete."""

    folder: Path
    decision: Mapping[str, object]
    """The key of the sample and the verdict; empty if its process was killed while it wrote the file beside it."""
    insights: _Insights | None
    """None if the folder is to contain no texts."""

    @property
    def note(self) -> Path:
        """The file beside it."""
        return self.folder.with_name(f"{self.folder.name}.json")

    def delete(self) -> None:
        """Delete the folder, and then the file beside it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.note.unlink(missing_ok=True)


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
    drafts = [draft for draft in _drafts(Path(directory)) if draft.folder.is_dir()]
    return sorted(version for draft in drafts if (version := _committed_version(draft, skillbook)) is not None)


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
        """Write the draft, and return the context with it in its metadata.

        Raises:
            OSError: A file cannot be written.
        """
        key = ctx.metadata.get("sample_key")
        if is_learned(ctx) or not isinstance(key, SampleKey) or self.skillbook.store is None:
            return ctx
        batch = needed(ctx.skill_manager_output, "skill_manager_output", self)
        omitted: Mapping[int, str] = {}
        if self.apply is not None:
            ctx = self.apply.with_omitted(ctx)
            omitted = self.apply.omitted(ctx)
        if all(each.type == "TAG" or index in omitted for index, each in enumerate(batch.operations)):
            return ctx
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
        insights = _Insights() if found is None else _Insights(found.ready, found.earlier)
        draft = _Draft(self.directory / _draft_name(key), decision, insights if self.provenance == "full" else None)
        _make_empty(draft.folder)
        note = {"decision": decision, "insights": None if draft.insights is None else draft.insights.as_record()}
        _write(draft.note, f"{_json(note)}\n".encode("utf-8", "backslashreplace"))
        if self.provenance == "full":
            _write_json(draft.folder / "trace.json", redactor.redact_value(_trace_of(ctx, found)))
        return ctx.replace(metadata={**ctx.metadata, ARTIFACT: draft})


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
        draft: _Draft | None = ctx.metadata.get(ARTIFACT)
        if draft is not None:
            outcome = outcome_of_sample(self.skillbook, ctx)
            if outcome is None:  # another process has committed the sample
                outcome = self._outcome_in_store(draft)
            written = self._finish(draft, outcome)
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
            outcome = self._outcome_in_store(draft)
            if outcome is not None:
                written = self._finish(draft, outcome)
                completed += [] if written is None else [written]
            elif _age(draft) > _ABANDONED_SECONDS:
                draft.delete()
        return completed

    def _outcome_in_store(self, draft: _Draft) -> SampleOutcome | None:
        version = _committed_version(draft, self.skillbook)
        return None if version is None else outcome_of_commit(self.skillbook, version)

    def _finish(self, draft: _Draft, outcome: SampleOutcome | None) -> Artifact | None:
        """Complete and rename a draft; delete it if no skill was changed."""
        if outcome is None or outcome.version is None or not outcome.applied:
            draft.delete()
            return None
        target = self.directory / f"{_compact_time(outcome.at)}-v{outcome.version}"
        try:
            if draft.folder.is_dir():
                self._fill(draft, outcome, outcome.version)
                draft.folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise  # otherwise another process has completed it
        draft.delete()
        return Artifact(outcome.version, target)

    def _fill(self, draft: _Draft, outcome: SampleOutcome, version: int) -> None:
        operations = [
            {"type": each.kind, "skill_id": each.skill_id, "section": each.section, "content": each.content}
            for each in outcome.applied
        ]
        omitted = [{"type": each.kind, "skill_id": each.skill_id, "reason": each.reason} for each in outcome.omitted]
        about = {"version": version, "at": outcome.at, **draft.decision}
        _write_json(draft.folder / "decision.json", {**about, "operations": operations, "omitted": omitted})
        if draft.insights is not None:
            insights = with_outcome(*draft.insights, outcome, self.skillbook)
            _write_json(draft.folder / "insights.json", [each.as_record() for each in insights])
        book = self.skillbook if self.skillbook.version == version else self.skillbook.as_of(version)
        _write(draft.folder / "playbook.md", f"{book.as_markdown().rstrip()}\n".encode())


def _draft_name(key: SampleKey) -> str:
    return _DRAFT + hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()[:16]


def _make_empty(folder: Path) -> None:
    """Create a folder, or empty it: it may be of an earlier attempt at the sample."""
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode=0o700)
    except FileExistsError:
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)


def _drafts(directory: Path) -> list[_Draft]:
    try:
        names = sorted({each.name.removesuffix(".json") for each in directory.iterdir() if _is_draft(each)})
    except FileNotFoundError:
        return []
    return [_read_draft(directory / name) for name in names]


def _is_draft(path: Path) -> bool:
    return path.name.startswith(_DRAFT)


def _read_draft(folder: Path) -> _Draft:
    draft = _Draft(folder, {}, None)
    try:
        note = json.loads(draft.note.read_bytes())
        has_insights = isinstance(note, Mapping) and isinstance(note.get("insights"), Mapping)
        insights = _Insights.from_record(mapping_in(note, "insights")) if has_insights else None
    except (OSError, ValueError):  # its process was killed while it wrote the file, before the commit
        return draft
    return _Draft(folder, mapping_in(note, "decision"), insights) if isinstance(note, Mapping) else draft


def _committed_version(draft: _Draft, skillbook: Skillbook) -> int | None:
    """Return the version that contains the sample of a draft; None if the sample was not committed."""
    store = skillbook.store
    match list_in(draft.decision, "key"):
        case [str() as run, int() as epoch, str() as sample] if store is not None:
            return store.committed_version(SampleKey(run, epoch, sample))
    return None


def _age(draft: _Draft) -> float:
    """Return how long ago a draft was changed, in seconds."""
    for path in (draft.folder, draft.note):
        with contextlib.suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime
    return 0.0


def _trace_of(ctx: ACEStepContext, found: FoundInsights | None) -> Mapping[str, object]:
    from ace.roles.trace_reading import read_trace

    trace = read_trace(ctx.trace) if found is None or found.trace is None else found.trace
    return {"id": str(ctx.metadata.get("trace_id", "")), **trace}


def _compact_time(at: str) -> str:
    """Return a time for the name of a folder, without colons, which some file systems do not allow."""
    digits = re.sub(r"[-:]", "", at.removesuffix("Z").replace("+00:00", ""))
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction[:6]:0<6}Z"


def _write_json(path: Path, value: object) -> None:
    _write(path, f"{_json_lines(value)}\n".encode("utf-8", "backslashreplace"))


def _json_lines(value: object, depth: int = 0) -> str:
    """Return JSON for people: a line for each field or item, and for each one inside of those."""
    if depth == _EXPANDED or not isinstance(value, Mapping | list | tuple) or not value:
        return _json(value)
    if isinstance(value, Mapping):
        items = [f"{_json(str(name))}: {_json_lines(each, depth + 1)}" for name, each in value.items()]
    else:
        items = [_json_lines(each, depth + 1) for each in value]
    first, last = ("{", "}") if isinstance(value, Mapping) else ("[", "]")
    margin = "  " * depth
    lines = f",\n{margin}  ".join(items)
    return f"{first}\n{margin}  {lines}\n{margin}{last}"


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read. It need not be atomic: the folder is only used after it is renamed."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, PRIVATE)) as file:
        file.write(data)
