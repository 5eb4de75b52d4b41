"""`ArtifactDraftStep` and `ArtifactStep`: write a folder with human-readable files for each accepted version.

Before the commit, a draft is written: a hidden file with what the store does not keep. Its first line holds the key of
the sample, the verdict and the insights; the rest is the trace, as `trace.json` will contain it. After the commit, the
folder is written under a hidden name and renamed, and the draft is deleted. If the process is killed in between, a
later one can write the folder: it finds the key, and the store knows whether this sample was committed.

Earlier versions wrote the trace into the hidden folder before the commit, so their drafts consist of a file with one
line, and a folder with `trace.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as quote
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace._internal.arguments import checked_arguments, checked_class, file_path, one_of, whole_number
from ace._internal.atomic_file import PRIVATE, make_folder
from ace._internal.json_fields import Record, list_in, mapping_in
from ace.calls.model_calls import redactor_for
from ace.calls.sample_context import is_learned, needed, run_of
from ace.context import ACEStepContext
from ace.loop.insight_steps import found_insights, with_outcome
from ace.loop.insights import Insight
from ace.loop.metadata import ARTIFACT, VERDICT
from ace.loop.outcomes import outcome_of_commit, outcome_of_sample
from ace.proof.trace_facts import read_trace_of, without_trace_read
from ace.protocols.observers import ArtifactWritten, emit, is_observed
from ace.skill import PROVENANCES, Provenance
from ace.skillbook.store import SampleKey

if TYPE_CHECKING:
    from ace.loop.metadata import AppliesOperations
    from ace.loop.outcomes import SampleOutcome
    from ace.protocols.gate import GateVerdict
    from ace.skillbook import Skillbook

__all__ = ["Artifact", "ArtifactDraftStep", "ArtifactStep", "artifacts_in", "unfinished_artifacts"]

logger = logging.getLogger(__name__)

_DRAFT: Final = ".draft-"
_SUFFIX: Final = ".json"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NAME: Final = re.compile(r"(?P<time>\d{8}T\d{6}\.\d{6}Z)-v(?P<version>\d+)")
_EXPANDED: Final = 2
"""How many levels of a JSON file have a line for each item. Deeper ones are compact, and quicker to write."""
_WORDS: Final[Mapping[object, str]] = {None: "null", True: "true", False: "false"}
_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
_EXCERPT: Final = """\
This skillbook has {count}. This file contains the sections of those that version {version} changed. To print all skills
of this version, run:

    ace skillbook export - --format markdown --at {version}

The setting artifact_skills ({most:,}) is the number of skills up to which this file contains the whole skillbook.

{skills}"""
_ABANDONED_SECONDS: Final = 3600.0
"""The age from which a draft whose sample was not committed is deleted; a younger one may be of another process."""


class _Insights(NamedTuple):
    """The insights of a sample, see `FoundInsights`."""

    ready: Sequence[Insight] = ()
    earlier: Sequence[tuple[str, Insight]] = ()

    def as_record(self) -> dict[str, object]:
        return {
            "ready": [insight.as_record() for insight in self.ready],
            "earlier": [[id, insight.as_record()] for id, insight in self.earlier],
        }

    @classmethod
    def from_record(cls, record: Record) -> _Insights:
        earlier = [pair for pair in list_in(record, "earlier") if isinstance(pair, list)]
        return cls(
            [Insight.from_record(insight) for insight in list_in(record, "ready")],
            [(str(id), Insight.from_record(insight)) for id, insight in earlier],
        )


class _Draft(NamedTuple):
    """What is needed to write the folder of a sample once it is committed."""

    file: Path
    decision: Mapping[str, object]
    """The key of the sample and the verdict; empty if its process was killed while it wrote the file."""
    insights: _Insights | None = None
    """None if the folder is to contain no texts."""
    trace: bytes = b""
    """The content of `trace.json`; empty if the folder is to contain no texts, or contains it already."""

    @property
    def folder(self) -> Path:
        """The hidden folder in which the files are written."""
        return self.file.with_suffix("")

    def write(self) -> None:
        """Write the file."""
        self._delete_folder()  # of an earlier attempt at the sample
        insights = None if self.insights is None else self.insights.as_record()
        head = _json({"decision": self.decision, "insights": insights})
        data = b"%b\n%b" % (_encoded(head), self.trace)
        try:
            _write(self.file, data)
        except FileNotFoundError:
            make_folder(self.file.parent)
            _write(self.file, data)

    def delete(self) -> None:
        """Delete the folder, if there is one, and the file."""
        self._delete_folder()
        self.file.unlink(missing_ok=True)

    def _delete_folder(self) -> None:
        folder = self.folder
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)


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
        names = sorted(path.name for path in Path(directory).iterdir())
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
    outcomes = [_outcome_in_store(draft, skillbook) for draft in _drafts(Path(directory))]
    places = [place for outcome in outcomes if (place := _place_of(Path(directory), outcome)) is not None]
    return sorted(place.version for place in places if not place.folder.is_dir())


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
        apply: AppliesOperations | None = None,
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
        if all(operation.type == "TAG" or index in omitted for index, operation in enumerate(batch.operations)):
            return ctx
        found = found_insights(ctx)
        verdict: GateVerdict | None = ctx.metadata.get(VERDICT)
        redactor = redactor_for(self.client)
        trace_id = redactor.redact_name(str(ctx.metadata.get("trace_id", "")))
        decision = {
            "key": list(key),
            "trace": trace_id,
            "task": "" if found is None else found.task_id,
            "accepted": True,
            "reason": "no gate" if verdict is None else verdict.reason,
            "before": {} if verdict is None else dict(verdict.before),
            "after": {} if verdict is None else dict(verdict.after),
        }
        draft = _Draft(self.directory / _draft_name(key), decision)
        if self.provenance == "full":
            insights = _Insights() if found is None else _Insights(found.ready, found.earlier)
            trace = {"id": trace_id, **redactor.redact_value(read_trace_of(ctx))}
            draft = draft._replace(insights=insights, trace=_json_file(trace))
        draft.write()
        return ctx.replace(metadata={**ctx.metadata, ARTIFACT: draft})


@checked_class
class ArtifactStep:
    """Writes a folder for each accepted version, such as `20261122T120000.123456Z-v18`.

    It contains `playbook.md` (the skills), `decision.json` (the verdict, the figures of the gate before and after, the
    operations, and those that were not applied), `insights.json` and `trace.json` (redacted). It is either complete or
    absent. The store remains the source of truth; the folder is a copy for reading, and is not synced to the disk.

    If the skillbook is large, each copy of it takes megabytes. `playbook.md` then contains only the sections of the
    skills that the version changed, and the command that prints all skills of the version.

    With the first trace, it also completes the folders of versions whose process was killed after the commit.

    Args:
        directory: The directory of the folders.
        skillbook: The book that learns; without a store, nothing is written.
        max_skills: The number of skills up to which `playbook.md` contains all of them.

    Raises:
        ValueError: `max_skills` is below 0.

    Example:
        >>> from ace import Skillbook
        >>> ArtifactStep("logs/artifacts", Skillbook()).directory.name
        'artifacts'
    """

    requires = frozenset({"skill_manager_output"})
    provides: frozenset[str] = frozenset()
    lane = "skillbook"
    max_workers = 1

    def __init__(self, directory: str | Path, skillbook: Skillbook, *, max_skills: int = 2000) -> None:
        file_path("directory", directory)
        self.directory = Path(directory)
        self.skillbook = self.lane_key = skillbook
        self.max_skills = whole_number("max_skills", max_skills, least=0, of="skills")
        self._is_complete = False

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Write the folder, and return the context.

        Raises:
            OSError: A file cannot be written.
        """
        draft: _Draft | None = ctx.metadata.get(ARTIFACT)
        if draft is not None:
            outcome = outcome_of_sample(self.skillbook, ctx)
            if outcome is None:  # another process has committed the sample
                outcome = _outcome_in_store(draft, self.skillbook)
            written = self._finish(draft, outcome)
            if written is not None and is_observed():
                trace_id = str(ctx.metadata.get("trace_id", ""))
                emit(ArtifactWritten(run_of(ctx), trace_id, written.version, str(written.folder)))
        if not self._is_complete:
            self._is_complete = True
            self.complete()
        return without_trace_read(ctx)

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
            outcome = _outcome_in_store(draft, self.skillbook)
            if outcome is not None:
                written = self._finish(draft, outcome)
                completed += [] if written is None else [written]
            elif _age(draft) > _ABANDONED_SECONDS:
                draft.delete()
        return completed

    def _finish(self, draft: _Draft, outcome: SampleOutcome | None) -> Artifact | None:
        """Write the folder of a draft, unless no skill was changed, and delete the draft."""
        place = _place_of(self.directory, outcome)
        if outcome is not None and place is not None:
            try:
                self._fill(draft, outcome, place.version)
                draft.folder.rename(place.folder)
            except OSError:
                if not place.folder.is_dir():
                    raise  # otherwise it was completed, by another process or before this one was killed
            else:
                draft.file.unlink(missing_ok=True)
                return place
        draft.delete()
        return place

    def _fill(self, draft: _Draft, outcome: SampleOutcome, version: int) -> None:
        """Write the files into the hidden folder, which may contain some of a process that was killed."""
        folder = draft.folder
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        operations = [
            {"type": change.kind, "skill_id": change.skill_id, "section": change.section, "content": change.content}
            for change in outcome.applied
        ]
        omitted = [
            {"type": change.kind, "skill_id": change.skill_id, "reason": change.reason} for change in outcome.omitted
        ]
        about = {"version": version, "at": outcome.at, **draft.decision}
        _write(f"{folder}/decision.json", _json_file({**about, "operations": operations, "omitted": omitted}))
        if draft.insights is not None:
            insights = with_outcome(*draft.insights, outcome, self.skillbook)
            _write(f"{folder}/insights.json", _json_file([insight.as_record() for insight in insights]))
        if draft.trace:
            _write(f"{folder}/trace.json", draft.trace)
        book = self.skillbook if self.skillbook.version == version else self.skillbook.as_of(version)
        _write(f"{folder}/playbook.md", _encoded(f"{self._playbook(book, outcome, version)}\n"))

    def _playbook(self, book: Skillbook, outcome: SampleOutcome, version: int) -> str:
        """Return the skills of a version as Markdown; of a large book, only the sections that have changed."""
        if len(book) <= self.max_skills:
            return book.as_markdown().rstrip()
        known = (book.get_skill(change.skill_id) for change in outcome.applied)
        skills = book.as_markdown(sections={skill.section for skill in known if skill is not None}).rstrip()
        count = f"{len(book):,} skill{'' if len(book) == 1 else 's'}"
        return _EXCERPT.format(version=version, count=count, most=self.max_skills, skills=skills).rstrip()


def _draft_name(key: SampleKey) -> str:
    return f"{_DRAFT}{hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()[:16]}{_SUFFIX}"


def _drafts(directory: Path) -> list[_Draft]:
    try:
        names = sorted({path.name.removesuffix(_SUFFIX) for path in directory.iterdir() if _is_draft(path)})
    except FileNotFoundError:
        return []
    return [_read_draft(directory / f"{name}{_SUFFIX}") for name in names]


def _is_draft(path: Path) -> bool:
    return path.name.startswith(_DRAFT)


def _read_draft(file: Path) -> _Draft:
    try:
        head, _, trace = file.read_bytes().partition(b"\n")
        note = json.loads(head)
        if not isinstance(note, Mapping):
            return _Draft(file, {})
        has_insights = isinstance(note.get("insights"), Mapping)
        insights = _Insights.from_record(mapping_in(note, "insights")) if has_insights else None
    except (OSError, ValueError):  # its process was killed while it wrote the file, before the commit
        return _Draft(file, {})
    return _Draft(file, mapping_in(note, "decision"), insights, trace)


def _outcome_in_store(draft: _Draft, skillbook: Skillbook) -> SampleOutcome | None:
    """Return the outcome of the sample of a draft; None if the sample was not committed."""
    store = skillbook.store
    match list_in(draft.decision, "key"):
        case [str() as run, int() as epoch, str() as sample] if store is not None:
            version = store.committed_version(SampleKey(run, epoch, sample))
            return None if version is None else outcome_of_commit(skillbook, version)
    return None


def _place_of(directory: Path, outcome: SampleOutcome | None) -> Artifact | None:
    """Return the folder for the outcome of a sample; None if no skill was changed."""
    if outcome is None or outcome.version is None or not outcome.applied:
        return None
    return Artifact(outcome.version, directory / f"{_compact_time(outcome.at)}-v{outcome.version}")


def _age(draft: _Draft) -> float:
    """Return how long ago a draft was changed, in seconds."""
    for path in (draft.folder, draft.file):
        with contextlib.suppress(FileNotFoundError):
            return time.time() - path.stat().st_mtime
    return 0.0


def _compact_time(at: str) -> str:
    """Return a time for the name of a folder, without colons, which some file systems do not allow."""
    digits = at.removesuffix("Z").removesuffix("+00:00").replace("-", "").replace(":", "")
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction[:6]:0<6}Z"


def _json_file(value: object) -> bytes:
    return _encoded(f"{_json_lines(value)}\n")


def _json_lines(value: object, depth: int = 0) -> str:
    """Return JSON for people: a line for each field or item, and for each one inside of those."""
    if type(value) is str:  # the encoder takes several times as long to begin
        return quote(value)
    if type(value) is int:
        return str(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if type(value) is float and math.isfinite(value):
        return repr(value)
    if not value and isinstance(value, list | tuple | dict):
        return "{}" if isinstance(value, dict) else "[]"
    if depth == _EXPANDED:
        return _json(value)
    margin = "  " * depth
    if isinstance(value, list | tuple):
        lines = f",\n{margin}  ".join([_json_lines(item, depth + 1) for item in value])
        return f"[\n{margin}  {lines}\n{margin}]"
    if isinstance(value, Mapping):
        items = [
            f"{quote(str(name))}: {quote(item) if type(item) is str else _json_lines(item, depth + 1)}"
            for name, item in value.items()
        ]
        lines = f",\n{margin}  ".join(items)
        return f"{{\n{margin}  {lines}\n{margin}}}"
    return _json(value)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _write(path: str | Path, data: bytes) -> None:
    """Write a file that only its owner can read. It need not be atomic: only complete ones are used."""
    descriptor = os.open(path, _CREATE, PRIVATE)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)
