"""What a store records about a run: so that it can be resumed, and so that `once=True` learns nothing twice.

The progress note of each sample contains the digest of its content, and is written in the transaction in which the
sample is learned. This needs no table of its own, so it works with every store, including those of plugins.

A run is resumed by three parts. `RunRecord.begun` finds its record by the id of the run, which the command line chooses
in `ace.cli.learning.run_plan`. `RunSession` draws the inputs again and skips the samples that have ended. Of a sample
that was interrupted, `ace.calls.model_calls.RecordedAnswers` returns the answers that were paid for. Copies of the
skillbook that `CheckpointStep` writes are not used.

A conversation, a list of steps or a text that grows is recognised by its beginning: the note also contains the length
and the digest of the record. If a longer record begins with a learned one, only the rest of it is new.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, final

from ace.pipeline.threads import Changes
from ace.runners.samples import Beginning, RecordedTrace, TraceGroup, content_of, growing_record
from ace.runners.spend import RunSpend
from ace.skillbook.errors import SkillbookError
from ace.skillbook.store import ForgetsAnswers, LocksRuns, SampleKey

if TYPE_CHECKING:
    from ace.runners.run_options import RunSettings
    from ace.runners.samples import SampleInFlight
    from ace.skillbook import Skillbook
    from ace.skillbook.store import ProgressRow, SkillbookStore

__all__ = [
    "ContentClaims",
    "LearnedContents",
    "RunInUseError",
    "RunRecord",
    "RunSummary",
    "SampleSummary",
    "SkillUse",
    "UnfinishedRun",
    "forget_answers",
    "give_up",
    "has_run",
    "is_in_use",
    "new_inputs",
    "record_of_run",
    "recorded_runs",
    "run_summaries",
    "skill_use",
    "unfinished_runs",
]

logger = logging.getLogger(__name__)
_RUNS = ""
"""The name of the run whose progress is the list of all runs."""
_RUNNING = "running"
_STOPPED = "stopped"
"""The run was stopped before it had processed all inputs, and its end was reported."""
_FINISHED = "finished"
_WITH_FAILURES = "failures"
"""The run has processed all inputs, and some samples have failed."""
_SPENT = "spent"
"""The field with what the calls of the run have spent, as `RunSpend.to_record` returns it."""


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """A run that was killed or stopped, in which samples failed, or that another process is still working on."""

    run_id: str
    """Its name, for `run(..., run_id=..., resume=True)`."""
    runner: str
    """The kind of runner that started it, such as `trace_analyser`."""
    started: str
    """When it was started, as ISO time."""
    epochs: int
    """The number of passes over its inputs."""
    total: int | None
    """The number of inputs; None if it is not known."""
    learned: int
    """How many samples have been learned, over all epochs."""
    failed: int
    """How many samples have failed; a resumed run tries them again."""


class SampleSummary(NamedTuple):
    """The record of one sample of a run in a store."""

    key: SampleKey
    at: str
    """When its state was last recorded: ISO 8601, UTC."""
    state: Literal["learned", "done", "failed", "given up"]
    """`learned` if it changed the skillbook, `done` if it ended without a change."""
    version: int | None
    """The version that it was committed as, if any."""
    failures: int
    """The number of failed attempts."""
    cited: tuple[str, ...]
    """The skills that the agent's answer cites."""
    problem: str = ""
    """Why it failed, redacted; empty if it did not, or if an earlier version of ACE recorded it."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run of a store, finished or not, with its samples."""

    run_id: str
    """Its name."""
    runner: str
    """The kind of runner that started it, such as `trace_analyser`."""
    started: str
    """When it was started: ISO 8601, UTC."""
    state: Literal["running", "stopped", "finished", "failures"]
    """`running` until its end is recorded, so also after a kill; `failures` if failed samples can be tried again."""
    epochs: int
    """The number of passes over its inputs."""
    total: int | None
    """The number of inputs; None if it is not known."""
    samples: tuple[SampleSummary, ...]
    """The recorded samples of all epochs, in order."""
    spent: RunSpend | None = None
    """What it has spent, as its ended calls have recorded it; None if none of them had an observer.

    Every command has one. What a call that was killed has spent is not included.
    """

    def count(self, *states: str) -> int:
        """Return the number of samples in any of these states."""
        return sum(sample.state in states for sample in self.samples)


class RunInUseError(SkillbookError):
    """Another process, or another thread, is working on the run, so it cannot be resumed now.

    Attributes:
        run_id: The name of the run.

    Example:
        >>> print(RunInUseError("monday"))
        another process is working on the run 'monday'; when it has ended, the run can be resumed
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"another process is working on the run {run_id!r}; when it has ended, the run can be resumed")


def is_in_use(skillbook: Skillbook, run_id: str) -> bool:
    """Return whether another process, or another run of this process, is working on a run.

    Args:
        skillbook: The book.
        run_id: The name of the run.
    """
    store = skillbook.store
    return store is not None and _is_locked(store, run_id)


def has_run(skillbook: Skillbook, run_id: str) -> bool:
    """Return whether a run was started under this name, finished or not.

    With it, a program can continue one run each time, and so learns from each input once:
    `run(inputs, run_id=name, resume=has_run(skillbook, name))`.

    Args:
        skillbook: The book; one without a store has none.
        run_id: The name of the run.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> has_run(Skillbook(), "monday")
        False
    """
    store = skillbook.store
    return store is not None and run_id in recorded_runs(store)


def give_up(skillbook: Skillbook, run_id: str) -> int:
    """Give up the failed samples of a run, so that they are not tried again.

    A resumed run skips them, and so does every run with `once=True`.

    Args:
        skillbook: The book.
        run_id: The name of the run.

    Returns:
        How many samples were given up.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> give_up(Skillbook(), "monday")
        0
    """
    store = skillbook.store
    if store is None:
        return 0
    rows = [(row, json.loads(row.note)) for row in store.progress(run_id)]
    failed = [(row, note) for row, note in rows if _is_failed(row, note)]
    for row, note in failed:
        store.note_progress(row.key, json.dumps({**note, "ended": True, "given_up": True}), _now())
    about = next((json.loads(row.note) for row in store.progress(_RUNS) if row.key.sample == run_id), None)
    if about is not None and about["state"] == _WITH_FAILURES:
        if about.get("forgets"):
            forget_answers(store, run_id)
        store.note_progress(_run_key(run_id), json.dumps({**about, "state": _FINISHED}), _now())
    return len(failed)


def forget_answers(store: SkillbookStore, run_id: str) -> None:
    """Delete the recorded answers of a run; log a warning if the store cannot do that.

    Args:
        run_id: The name of the run.
    """
    forgetful: object = store  # mypy takes no object for both protocols
    if isinstance(forgetful, ForgetsAnswers):
        forgetful.forget_answers(run_id)
    else:
        logger.warning(
            "The store of the skillbook cannot delete the answers of models in the run %s, so they stay in it although "
            "the run was not to keep them",
            run_id,
        )


def unfinished_runs(skillbook: Skillbook) -> list[UnfinishedRun]:
    """Return the runs of a store that can be resumed, in the order in which they were started.

    Args:
        skillbook: The book; one without a store has none.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> unfinished_runs(Skillbook())
        []
    """
    store = skillbook.store
    return [] if store is None else [_summary(store, row) for row in _unfinished(store)]


def run_summaries(skillbook: Skillbook) -> list[RunSummary]:
    """Return all runs of a store, finished or not, in the order in which they were started.

    Args:
        skillbook: The book; one without a store has none.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> run_summaries(Skillbook())
        []
    """
    store = skillbook.store
    return [] if store is None else [_run_summary(store, row) for row in store.progress(_RUNS)]


def record_of_run(
    skillbook: Skillbook,
    options: RunSettings,
    *,
    runner: str,
    epochs: int,
    total: int | None,
    inputs: str = "",
    forgets: bool = False,
) -> RunRecord | None:
    """Return the record of a run that begins or is resumed; None for a book without a store.

    Args:
        skillbook: The book that the run changes.
        options: The options of the run.
        runner: The kind of runner.
        epochs: The number of passes over the inputs.
        total: The number of inputs; None if it is not known.
        inputs: A digest that identifies the inputs, for `resume="auto"`.
        forgets: Whether the recorded answers of models are deleted at the end.

    Raises:
        ValueError: The run cannot be resumed, or cannot be started under this name.
    """
    if skillbook.store is not None:
        return RunRecord.begun(
            skillbook.store, options, runner=runner, epochs=epochs, total=total, inputs=inputs, forgets=forgets
        )
    if options.once:
        raise ValueError(
            "once=True requires a skillbook in a store, which records what it has learned; "
            "open the skillbook with a path that ends in .db"
        )
    if options.resume:
        raise ValueError(
            "only a run with a skillbook in a store, which records its progress, can be resumed; "
            "open the skillbook with a path that ends in .db"
        )
    return None


def recorded_runs(store: SkillbookStore) -> list[str]:
    """Return the names of all runs in a store, finished or not."""
    return [row.key.sample for row in store.progress(_RUNS)]


@final
class RunRecord:
    """The progress of one run in a store.

    Args:
        run_id: The name of the run.
        about: What is noted about the run as a whole.

    Raises:
        RunInUseError: Another process is working on the run.
    """

    def __init__(self, store: SkillbookStore, run_id: str, about: dict[str, Any]) -> None:
        self.store = store
        self._about = about
        self.run_id = run_id
        with ExitStack() as locks:
            if not locks.enter_context(_lock_of_run(store, run_id, wait=True)):
                raise RunInUseError(run_id)
            self._rows = {row.key: row for row in store.progress(run_id)}
            self.is_resumed = bool(self._rows)
            """Whether an earlier call has recorded a sample."""
            earlier = [json.loads(row.note) for row in store.progress(_RUNS) if row.key.sample == run_id]
            states = [note["state"] for note in earlier]
            self.was_through = any(state in (_FINISHED, _WITH_FAILURES) for state in states)
            """Whether an earlier call has gone through all inputs."""
            self.was_begun = bool(states)
            """Whether an earlier call has started the run, even if it has not finished any sample."""
            self.was_killed = _RUNNING in states
            """Whether the last call was killed, so that the end of the run was never reported."""
            self.forgets = any(note.get("forgets", False) for note in (about, *earlier))
            """Whether this call of the run, or an earlier one, is not to keep the answers of models."""
            if self.forgets:
                self._about = about = {**about, "forgets": True}
            for note in earlier:
                if _SPENT in note:
                    self._about = about = {**about, _SPENT: note[_SPENT]}
            store.note_progress(_run_key(run_id), json.dumps(about), str(about["started"]))
            self._lock = locks.pop_all()

    @classmethod
    def begun(
        cls,
        store: SkillbookStore,
        options: RunSettings,
        *,
        runner: str,
        epochs: int,
        total: int | None,
        inputs: str = "",
        forgets: bool = False,
    ) -> Self:
        """Note in a store that a run begins, or find the one to resume. The arguments are those of `record_of_run`.

        Raises:
            ValueError: The run already exists and `resume` is false, or it does not exist and `resume` is true.
            RunInUseError: Another process is working on the run.
        """
        about = {"runner": runner, "started": _now(), "epochs": epochs, "total": total, "state": _RUNNING}
        if inputs:
            about["inputs"] = inputs
        if forgets:
            about["forgets"] = True
        run_id = options.run_id
        if options.resume == "auto":
            if run_id is None:
                run_id = _last_over(store, runner, inputs)
            return cls(store, uuid.uuid4().hex if run_id is None else run_id, about)
        if run_id is None:
            run_id = _last_unfinished(store, runner) if options.resume else None
            return cls(store, uuid.uuid4().hex if run_id is None else run_id, about)
        is_known = run_id in recorded_runs(store)
        if options.resume and not is_known:
            known = ", ".join(repr(row.key.sample) for row in _unfinished(store)) or "none"
            raise ValueError(
                f"no run {run_id!r} to resume in this store (unfinished runs: {known}); omit resume to start it"
            )
        if is_known and not options.resume:
            raise ValueError(
                f"a run {run_id!r} already exists in this store; pass resume=True to resume it, or another run_id"
            )
        return cls(store, run_id, about)

    def set_caller(self, thread: int) -> None:
        """Set the thread that waits for the run: if it started the run again, it would wait for itself.

        Until then it is the thread that created the record.

        Args:
            thread: The identifier of the thread; with `arun`, of that of the event loop.
        """
        with _here.lock:
            _held_here[_run_in(self.store, self.run_id)] = thread

    def leave_to_background(self) -> None:
        """Note that the caller does not wait for the end of the run, so that its thread may start the run again."""
        with _here.lock:
            _held_here[_run_in(self.store, self.run_id)] = _BACKGROUND

    def release(self) -> None:
        """Let another process work on the run."""
        self._lock.close()

    def is_over(self, key: SampleKey) -> bool:
        """Whether a sample has passed all steps."""
        row = self._rows.get(key)
        return row is not None and bool(json.loads(row.note).get("ended"))

    def is_committed(self, key: SampleKey) -> bool:
        """Whether what a sample taught is committed to the store."""
        row = self._rows.get(key)
        return row is not None and row.version is not None

    def attempt(self, key: SampleKey) -> int:
        """How often a sample has failed."""
        return int(self._noted(key).get("attempt", 0))

    def attempts(self, key: SampleKey) -> Mapping[str, int]:
        """How often a sample has failed because of the answers to a role, by role."""
        return dict(self._noted(key).get("attempts", {}))

    def note_over(self, sample: SampleInFlight, used: Mapping[str, object]) -> None:
        """Note that a sample has passed all steps, and which skills were used for it."""
        earlier = self._noted(sample.key)  # of an earlier call, in which the agent answered
        kept = {name: earlier[name] for name in ("cited", "shown") if name in earlier}
        self._note(sample, {"attempt": sample.attempt, "ended": True, **kept, **used})

    def note_failed(self, sample: SampleInFlight, role_to_retry: str, problem: str) -> None:
        """Record another failure of a sample.

        Args:
            role_to_retry: The role whose recorded answers must not be replayed; empty if all may be.
            problem: Why it failed, redacted.
        """
        attempts = dict(sample.attempts)
        if role_to_retry:
            attempts[role_to_retry] = attempts.get(role_to_retry, 0) + 1
        self._note(sample, {"attempt": sample.attempt + 1, "attempts": attempts, "problem": problem})

    def _noted(self, key: SampleKey) -> Mapping[str, Any]:
        row = self._rows.get(key)
        return {} if row is None else json.loads(row.note)

    def _note(self, sample: SampleInFlight, outcome: dict[str, Any]) -> None:
        note = {"trace_id": sample.key.sample, "index": sample.global_index, **sample.content, **outcome}
        self.store.note_progress(sample.key, json.dumps(note), _now())

    def has_failed(self, key: SampleKey) -> bool:
        """Whether the last attempt at a sample failed, and it was not given up."""
        row = self._rows.get(key)
        return row is not None and _is_failed(row, json.loads(row.note))

    def note_stopped(self, spent: RunSpend | None = None) -> None:
        """Note that the run was stopped before it had processed all inputs.

        Args:
            spent: What this call of the run has spent; None if it is not known.
        """
        self._note_end(_STOPPED, spent)

    def note_through(self, *, has_failures: bool, spent: RunSpend | None = None) -> None:
        """Note that the run has processed all inputs.

        Args:
            has_failures: Whether failed samples are left, so that the run can be resumed.
            spent: What this call of the run has spent; None if it is not known.
        """
        self._note_end(_WITH_FAILURES if has_failures else _FINISHED, spent)

    def _note_end(self, state: str, spent: RunSpend | None) -> None:
        self._about = {**self._about, "state": state}
        if spent is not None:
            earlier = _spent_in(self._about) or RunSpend()
            self._about[_SPENT] = earlier.plus(spent).to_record()
        self.store.note_progress(_run_key(self.run_id), json.dumps(self._about), _now())


_here = Changes(threading.RLock())  # the garbage collector may release a run while this is held
_held_here: dict[tuple[object, str], int] = {}
"""The runs that this process is working on, each with the thread that waits for it."""
_BACKGROUND = 0
"""Instead of a thread: only the background of the run is left."""


def _forget_runs() -> None:
    """Forget the runs in a forked child, because its parent works on them."""
    global _here
    _here = Changes(threading.RLock())
    _held_here.clear()


os.register_at_fork(after_in_child=_forget_runs)


@contextmanager
def _lock_of_run(store: SkillbookStore, run_id: str, *, wait: bool) -> Iterator[bool]:
    """Lock a run, and yield whether it could be locked.

    If this process is working on the run, wait for that, unless the run is waited for by this thread, which would wait
    for itself.

    Args:
        store: The store of the run.
        run_id: The name of the run.
        wait: Whether to wait for a run of this process.
    """
    key, thread = _run_in(store, run_id), threading.get_ident()

    def is_decided() -> bool:
        return key not in _held_here or not wait or _held_here[key] == thread

    is_refused = is_mine = False
    try:
        while not (is_mine or is_refused):
            _here.wait_until(is_decided)
            with _here.lock:
                if key not in _held_here:
                    _held_here[key] = thread
                    is_mine = True
                else:
                    is_refused = is_decided()
        if is_refused:
            yield False
            return
        lock = store.run_lock(run_id) if isinstance(store, LocksRuns) else nullcontext(True)
        with lock as is_held:
            yield is_held
    finally:
        if is_mine:
            with _here.lock:
                _held_here.pop(key, None)  # it is gone in a forked child
                _here.tell()


def _is_locked(store: SkillbookStore, run_id: str) -> bool:
    with _lock_of_run(store, run_id, wait=False) as is_free:
        return not is_free


def _says_running(row: ProgressRow) -> bool:
    return bool(json.loads(row.note)["state"] == _RUNNING)


def _run_in(store: SkillbookStore, run_id: str) -> tuple[object, str]:
    return getattr(store, "path", id(store)), run_id


def _is_failed(row: ProgressRow, note: Mapping[str, Any]) -> bool:
    return row.version is None and note.get("attempt", 0) > 0 and not note.get("ended")


def _run_key(run_id: str) -> SampleKey:
    return SampleKey(_RUNS, 0, run_id)


def _unfinished(store: SkillbookStore) -> list[ProgressRow]:
    return [row for row in store.progress(_RUNS) if json.loads(row.note)["state"] != _FINISHED]


def _last_unfinished(store: SkillbookStore, runner: str) -> str | None:
    found = [row.key.sample for row in _unfinished(store) if json.loads(row.note)["runner"] == runner]
    if not found:
        logger.info("No unfinished run to resume; a new one begins")
    return found[-1] if found else None


def _last_over(store: SkillbookStore, runner: str, inputs: str) -> str | None:
    """Return the last unfinished run of this kind of runner over the inputs; without a digest, over any."""
    found = [(row.key.sample, json.loads(row.note)) for row in _unfinished(store)]
    names = [name for name, about in found if about["runner"] == runner and about.get("inputs", "") == inputs]
    return names[-1] if names else None


def _summary(store: SkillbookStore, row: ProgressRow) -> UnfinishedRun:
    about = json.loads(row.note)
    notes = [(mark, json.loads(mark.note)) for mark in store.progress(row.key.sample)]
    notes = [(mark, note) for mark, note in notes if "final_test" not in note]  # that is not a sample
    learned = sum(
        mark.version is not None or bool(note.get("ended") and not note.get("given_up")) for mark, note in notes
    )
    failed = sum(_is_failed(mark, note) for mark, note in notes)
    return UnfinishedRun(
        run_id=row.key.sample,
        runner=about["runner"],
        started=about["started"],
        epochs=about["epochs"],
        total=about["total"],
        learned=learned,
        failed=failed,
    )


def _run_summary(store: SkillbookStore, row: ProgressRow) -> RunSummary:
    about = json.loads(row.note)
    samples = [(mark, json.loads(mark.note)) for mark in store.progress(row.key.sample)]
    return RunSummary(
        run_id=row.key.sample,
        runner=about["runner"],
        started=about["started"],
        state=about["state"],
        epochs=about["epochs"],
        total=about["total"],
        samples=tuple(_sample_summary(sample, note) for sample, note in samples if "final_test" not in note),
        spent=_spent_in(about),
    )


def _spent_in(about: Mapping[str, Any]) -> RunSpend | None:
    return RunSpend.from_record(about[_SPENT]) if _SPENT in about else None


def _sample_summary(row: ProgressRow, note: Mapping[str, Any]) -> SampleSummary:
    failures = int(note.get("attempt", 0))
    state: Literal["learned", "done", "failed", "given up"] = "done"
    if row.version is not None:
        state = "learned"
    elif note.get("given_up"):
        state = "given up"
    elif _is_failed(row, note):
        state = "failed"
    problem = note.get("problem", "") if state in ("failed", "given up") else ""
    return SampleSummary(row.key, row.at, state, row.version, failures, tuple(note.get("cited", ())), problem)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


class SkillUse(NamedTuple):
    """The use of one skill in the samples that agents answered."""

    cited: int
    """How many answers cite it."""
    chosen: int
    """For how many samples it was chosen, by a retrieval or by the code that showed it to an agent elsewhere."""
    whole_book: int
    """For how many samples the whole book was shown; the same number for all skills, including those added later."""


def skill_use(skillbook: Skillbook) -> Mapping[str, SkillUse]:
    """Return the use of each active skill. One that was shown often and never cited can be removed.

    Args:
        skillbook: The book. For one without a store, nothing is recorded and the result is empty.

    Example:
        >>> from ace.skillbook import Skillbook
        >>> skill_use(Skillbook())
        {}
    """
    if skillbook.store is None:
        return {}
    cited: Counter[str] = Counter()
    chosen: Counter[str] = Counter()
    whole_book = 0
    for note in _notes(skillbook.store):
        if "cited" in note:
            cited.update(note["cited"])
            chosen.update(note.get("shown", ()))
            whole_book += "shown" not in note
    return {skill.id: SkillUse(cited[skill.id], chosen[skill.id], whole_book) for skill in skillbook.skills()}


def _notes(store: SkillbookStore) -> Iterator[dict[str, Any]]:
    for run_id in recorded_runs(store):
        for row in store.progress(run_id):
            yield json.loads(row.note)


def new_inputs(skillbook: Skillbook, inputs: Iterable[object]) -> int:
    """Return how many inputs no earlier run into a skillbook has learned, as a whole or in part.

    Args:
        skillbook: The book; without a store it keeps no record, so all inputs count as new.
        inputs: The inputs of a run.
    """
    store = skillbook.store
    learned = None if store is None else LearnedContents(store, "")
    return sum(learned is None or not learned.knows(item) for item in inputs)


@final
class LearnedContents:
    """The contents that the runs into a store have learned so far.

    Args:
        run_id: A run whose samples count only as the beginnings of longer records; empty for none.
    """

    def __init__(self, store: SkillbookStore, run_id: str) -> None:
        self._store = store
        self._run_id = run_id
        self._digests: set[str] = set()
        self._beginnings: defaultdict[str, dict[int, set[str]]] = defaultdict(dict)
        self._runs = {row.key.sample: row for row in store.progress(_RUNS)}
        self._working = {run for run, row in self._runs.items() if _says_running(row)}
        for run in self._runs:
            self._read(run)

    def refresh(self, own_run: str) -> None:
        """Add what other runs have learned since this was read.

        A run writes its own row when it is started or resumed and when it ends. So only runs whose row has changed are
        read again, and those that another process or thread was working on at the last call.

        Args:
            own_run: The name of the run that asks, whose samples are not read again.
        """
        rows = {row.key.sample: row for row in self._store.progress(_RUNS) if row.key.sample != own_run}
        changed = {run for run, row in rows.items() if row != self._runs.get(run)} | (self._working & rows.keys())
        # Before their samples are read: what a run learns after that is found at the next call.
        self._working = {run for run in changed if _says_running(rows[run]) and _is_locked(self._store, run)}
        self._runs = rows
        for run in changed:
            self._read(run)

    def _read(self, run: str) -> None:
        for row in self._store.progress(run):
            note = json.loads(row.note)
            if row.version is not None or note.get("ended"):
                self._add(note, beginning_only=run == self._run_id)

    def knows(self, item: object) -> bool:
        """Return whether all of an input has been learned. One that cannot be read counts as new.

        Args:
            item: The input.
        """
        if not self._digests:
            return False
        try:
            content = content_of(item)
            return self._digests.issuperset(content.members or [content.digest])
        except (OSError, ValueError) as error:  # it is raised again in the run, which reports the input as failed
            logger.debug("The content of an input cannot be compared: %s", error)
            return False

    def new_part(self, item: object) -> object | None:
        """Return what is new in a recorded trace that has grown; None if no learned record is its beginning.

        Args:
            item: The trace.
        """
        if not self._beginnings or isinstance(item, TraceGroup):
            return None
        try:
            growing = growing_record(item)
        except (OSError, ValueError) as error:  # as above
            logger.debug("The content of an input cannot be compared: %s", error)
            return None
        if growing is None:
            return None
        known = self._beginnings[growing.kind]
        lengths = [
            beginning.length
            for beginning in growing.beginnings(known)
            if beginning.digest in known.get(beginning.length, ())
        ]
        if not lengths or max(lengths) >= growing.length:
            return None
        part = growing.after(max(lengths))
        return RecordedTrace(part, item.place) if isinstance(item, RecordedTrace) else part

    def _add(self, note: Mapping[str, Any], *, beginning_only: bool) -> None:
        if "content" in note and not beginning_only:
            self._digests.add(note["content"])
        if not beginning_only:
            self._digests.update(filter(None, note.get("members", ())))
        if "whole" in note:
            whole = Beginning(*note["whole"])
            self._beginnings[whole.kind].setdefault(whole.length, set()).add(whole.digest)


@final
class ContentClaims:
    """The contents that a run is learning from, each claimed with a lock so that no other run pays for it meanwhile.

    The operating system, or the server of the store, releases the claims of a process that is killed. A run may claim
    a content several times. Thread-safe.

    Args:
        store: The store that the runs have in common.
    """

    def __init__(self, store: SkillbookStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._times: Counter[str] = Counter()
        self._locks: dict[str, ExitStack] = {}

    def take(self, digests: Collection[str]) -> bool:
        """Claim contents, and return whether they are claimed: all of them, or none if another run has one of them.

        Args:
            digests: The digests of the contents.
        """
        with self._lock:
            taken: list[str] = []
            for digest in digests:
                if not self._take(digest):
                    self._release(taken)
                    return False
                taken.append(digest)
            return True

    def release(self, digests: Collection[str]) -> None:
        """Release contents that were claimed.

        Args:
            digests: The digests of the contents.
        """
        with self._lock:
            self._release(digests)

    def _take(self, digest: str) -> bool:
        if not self._times[digest]:
            with ExitStack() as lock:
                try:
                    is_free = lock.enter_context(_lock_of_run(self._store, f"content {digest}", wait=False))
                except OSError:  # the folder of the store is gone, which ends the run at the next commit
                    is_free = True
                if not is_free:
                    return False
                self._locks[digest] = lock.pop_all()
        self._times[digest] += 1
        return True

    def _release(self, digests: Collection[str]) -> None:
        for digest in digests:
            self._times[digest] -= 1
            if not self._times[digest]:
                self._locks.pop(digest).close()

    def close(self) -> None:
        """Release all contents."""
        with self._lock:
            for lock in self._locks.values():
                lock.close()
            self._locks.clear()
            self._times.clear()
