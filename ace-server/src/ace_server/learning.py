"""Learns from one batch of feedback, and publishes what passed.

The learning itself is done by `ace`: a batch is a run of `TraceAnalyser` whose name is the id of the batch. The run
is resumed whenever an attempt ends early, so each sample is committed once, and an answer that the store has recorded
is not paid for again. `learn` may therefore be called any number of times, by any worker.

What follows from the run (a candidate, its publication, the states of the feedback and of the batch) is one transaction
of the service's database. It comes last, and only then are the answers of the models forgotten: a worker that is killed
before leaves a batch that the next one resumes.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, final

import sqlalchemy as sa

from ace.integrations import counted, observing
from ace.runners import RunSpend, RunSpendCounter, StepTimes
from ace.skillbook import ForgetsAnswers
from ace_server import tables
from ace_server.anonymise import anonymise_value, load_finder
from ace_server.batches import book_rules, validation_answers
from ace_server.database import DatabaseUnavailableError, now
from ace_server.releases import add_release, publish
from ace_server.reviews import add_review
from ace_server.traces import traces_of

if TYPE_CHECKING:
    from ace import Skillbook
    from ace.context import ACEStepContext
    from ace.pipeline import CancellationToken, SampleResult
    from ace_server.batches import BookRules
    from ace_server.service import Service

__all__ = ["STOPPING", "Outcome", "learn", "note_failure", "steps_from_json"]

logger = logging.getLogger(__name__)

_BATCH: Final = tables.batch
_FEEDBACK: Final = tables.feedback
_WRITE_SECONDS: Final = 1.0

STOPPING: Final = "stopping"
"""The reason with which a worker that stops cancels the token of a batch."""

Outcome = Literal["ended", "again", "stopped"]
"""How an attempt ended: the batch is learned or has failed; it will be tried again; or the worker stops."""


def learn(service: Service, batch: str, *, worker: str, token: CancellationToken) -> Outcome:
    """Learn from a batch, or continue with it.

    Args:
        batch: The id of the batch.
        worker: The id of the worker.
        token: Stops the run at the end of the samples that have started.

    Raises:
        DatabaseUnavailableError: The database of the service cannot be read or written.
        SkillbookError: The skillbook cannot be opened, read or written, or another worker is learning from the batch.
        UsageError: The samples of the validation cannot be read, or the anonymiser of the book cannot be loaded.
        AnonymiserError: The anonymiser failed.
    """
    with service.database.writing() as connection:
        row = connection.execute(sa.select(_BATCH).where(_BATCH.c.id == batch)).one()
        if row.state not in ("queued", "running"):
            return "ended"
        started = row.started_at or now()
        changes = {"state": "running", "worker": worker, "started_at": started, "ended_at": None}
        connection.execute(sa.update(_BATCH).where(_BATCH.c.id == batch).values(changes))
        rules = book_rules(service, connection, row.book)
        traces = traces_of(service, connection, batch)
        hides = connection.execute(sa.select(tables.book).where(tables.book.c.name == row.book)).one()
    if hides.anonymise:  # the models that learn see no more of a user than the one that answered
        finder = load_finder(hides.anonymiser)
        traces = {place: anonymise_value(trace, finder) for place, trace in traces.items()}
    with closing(service.open_book(row.book)) as book:
        problems = _run(service, book, batch, traces, token)
        if token.reason == STOPPING:
            return "stopped"
        attempts = row.attempts + 1
        if problems and attempts % service.settings.attempts:
            _note_attempt(service, batch, attempts, f"{len(problems)} of {len(traces)} samples failed")
            return "again"
        candidate = _candidate(service, rules, book, batch, traces, token)
        if token.reason == STOPPING:
            return "stopped"
        _finish(service, rules, batch, attempts, problems, candidate)
        _forget_answers(service, book, batch)  # what a kill leaves here is deleted by the purge
    return "ended"


def note_failure(service: Service, batch: str, problem: str) -> Outcome:
    """Note that an attempt failed as a whole, for example because the skillbook could not be opened.

    Args:
        batch: The id of the batch.
        problem: Why, without the texts of users.

    Raises:
        DatabaseUnavailableError: The database of the service cannot be written.
    """
    with service.database.writing() as connection:
        row = connection.execute(sa.select(_BATCH).where(_BATCH.c.id == batch)).one()
        if row.state not in ("queued", "running"):
            return "ended"
        attempts = row.attempts + 1
        is_last = attempts % service.settings.attempts == 0
        state = "failed" if is_last else "running"
        changes = {"state": state, "attempts": attempts, "ended_at": now(), "problem": problem}
        connection.execute(sa.update(_BATCH).where(_BATCH.c.id == batch).values(changes))
        if is_last:
            left = sa.update(_FEEDBACK).where(_FEEDBACK.c.batch == batch, _FEEDBACK.c.state == "batched")
            connection.execute(left.values(state="failed", problem=problem))
    return "ended" if is_last else "again"


def steps_from_json(text: str | None) -> dict[str, StepTimes]:
    """Return the steps of a batch, in the order in which they first ended.

    Args:
        text: The column `steps` of the batch.

    Example:
        >>> steps_from_json('{"ReflectStep": {"calls": 2, "failed": 0, "seconds": 1.5}}')
        {'ReflectStep': StepTimes(calls=2, failed=0, seconds=1.5)}
    """
    return {} if text is None else {step: StepTimes(**times) for step, times in json.loads(text).items()}


class _Candidate(NamedTuple):
    """What a batch has changed in its book."""

    version: int
    score: float | None
    score_before: float | None

    @property
    def is_worse(self) -> bool:
        """Whether the held-out score fell."""
        return self.score is not None and self.score_before is not None and self.score < self.score_before


def _run(
    service: Service, book: Skillbook, batch: str, traces: Mapping[str, object], token: CancellationToken
) -> dict[str, str]:
    """Learn from the traces, and return what failed: the ids of the feedback, each with the problem."""
    from ace.evaluation import CounterGate
    from ace.logs import traces_in
    from ace.runners import RecordedTrace, TraceAnalyser

    places: list[str] = []

    def runs() -> Iterator[RecordedTrace]:
        # What a client sent in one request may hold many runs, such as the spans of several traces. Each takes time to
        # read, so no further one is read once the service stops.
        for place, trace in traces.items():
            for run in traces_in(trace):
                if token.is_cancelled:
                    return
                places.append(place)
                yield RecordedTrace(run, place)

    settings = service.settings
    analyser = TraceAnalyser.from_client(
        service.client,
        skillbook=book,
        provenance="ids",
        reflections_per_call=settings.reflections_per_call,
        gate=CounterGate(),
        failures_path=None,
    )
    spent = _Spent(service, batch)
    with observing(spent.counter):
        results = analyser.run(
            runs(),
            run_id=batch,
            resume="auto",
            workers=settings.reflect_workers,
            cancel_token=token,
            on_sample_end=spent.sample_ended,
        )
    spent.write()
    return {place: _problem(result) for place, result in zip(places, results, strict=True) if result.error is not None}


def _problem(result: SampleResult[ACEStepContext]) -> str:
    """Return why a sample failed. The message is omitted, because it can quote a user."""
    where = f" in {result.failed_at}" if result.failed_at else ""
    return f"{type(result.error).__name__}{where}"


def _candidate(
    service: Service,
    rules: BookRules,
    book: Skillbook,
    batch: str,
    traces: Collection[str],
    token: CancellationToken,
) -> _Candidate | None:
    """Return what the batch has changed in the book; None if it has changed no skill.

    If the book has validation samples, the states before and after are scored, and the book is rolled back if the score
    fell, unless it has been changed since.
    """
    store = book.store
    assert store is not None, "the books of the service are in stores"
    rows = [row for row in store.progress(batch) if row.key.sample.partition("@")[2] in traces]
    versions = _with_changes(book, {row.version for row in rows if row.version is not None})
    if not versions:
        return None
    before, after = min(versions) - 1, _newest_version(service, rules.name, book, max(versions))
    if rules.validation is None:
        return _Candidate(after, None, None)
    old, new = book.as_of(before), book.as_of(after)
    scores = _scores(service, rules.validation, (old, new), batch, token)
    found = _Candidate(after, scores[1], scores[0])
    if found.is_worse and _texts(book) == _texts(new):
        book.rollback(before, author=f"gate: validation fell from {scores[0]:.4f} to {scores[1]:.4f} ({batch})")
    return found


def _newest_version(service: Service, name: str, book: Skillbook, own: int) -> int:
    """Return the version to offer: the last one of the batch, or the newest one of the book if that contains less.

    That is so if a candidate was rejected, or an older version restored, while the batch was being learned from.
    """
    release = tables.release
    with service.database.reading() as connection:
        newest = connection.scalar(sa.select(sa.func.max(release.c.version)).where(release.c.book == name))
    if newest is None or newest <= own:
        return own
    book.refresh()
    return book.version or own


def _with_changes(book: Skillbook, versions: Collection[int]) -> list[int]:
    """Return the versions that have changed a skill. A sample that teaches nothing is recorded as a version too."""
    later = book.history(min(versions) - 1) if versions else []
    return [entry.version for entry in later if entry.version in versions and entry.events]


def _scores(
    service: Service, path: str, states: Sequence[Skillbook], batch: str, token: CancellationToken
) -> list[float]:
    """Return the accuracy of the agent on the held-out samples with each state of the book.

    The answers are kept in a file until the batch has ended, so that a resumed batch does not pay for them again.
    """
    from ace import SimpleEnvironment
    from ace.evaluation import Evaluator
    from ace.integrations import all_samples
    from ace.retrieval import TopSkills
    from ace.roles import agent_for

    settings = service.settings
    evaluator = Evaluator(
        agent_for(service.client),
        SimpleEnvironment(),
        retrieval=TopSkills(settings.skills),
        workers=settings.reflect_workers,
        answers_path=validation_answers(service.settings, batch),
        label=service.model,
    )
    samples = all_samples([path])
    return [evaluator.evaluate(samples, state, cancel_token=token).accuracy for state in states]


def _texts(book: Skillbook) -> dict[str, str]:
    return {skill.id: skill.content for skill in book.skills()}


def _forget_answers(service: Service, book: Skillbook, batch: str) -> None:
    """Delete what models answered in a batch. The run does it itself only if nothing has failed."""
    forgetful: object = book.store  # mypy takes no object for both protocols
    if isinstance(forgetful, ForgetsAnswers):
        forgetful.forget_answers(batch)
    validation_answers(service.settings, batch).unlink(missing_ok=True)


def _note_attempt(service: Service, batch: str, attempts: int, problem: str) -> None:
    with service.database.writing() as connection:
        changes = {"attempts": attempts, "problem": problem, "ended_at": now()}
        connection.execute(sa.update(_BATCH).where(_BATCH.c.id == batch).values(changes))


def _finish(
    service: Service,
    rules: BookRules,
    batch: str,
    attempts: int,
    problems: Mapping[str, str],
    candidate: _Candidate | None,
) -> None:
    """Note the end of a batch, and publish its candidate if it may be."""
    with service.database.writing() as connection:
        of_batch = (_FEEDBACK.c.batch == batch) & (_FEEDBACK.c.state == "batched")
        for feedback, problem in problems.items():
            failed = sa.update(_FEEDBACK).where(of_batch, _FEEDBACK.c.id == feedback)
            connection.execute(failed.values(state="failed", problem=problem))
        learned = connection.execute(sa.update(_FEEDBACK).where(of_batch).values(state="learned")).rowcount
        release = None if candidate is None else _add_candidate(connection, rules, batch, candidate)
        logger.info("Batch %s of book %s: %d learned, %d failed", batch, rules.name, learned, len(problems))
        changes = {
            "state": "failed" if problems else "learned",
            "attempts": attempts,
            "ended_at": now(),
            "failed": len(problems),
            "learned": _BATCH.c.samples - len(problems),
            "problem": f"{counted(len(problems), 'sample')} failed" if problems else None,
        }
        if release is not None:  # else it keeps the one of an earlier attempt
            changes["release"] = release
        connection.execute(sa.update(_BATCH).where(_BATCH.c.id == batch).values(changes))


def _add_candidate(connection: sa.Connection, rules: BookRules, batch: str, candidate: _Candidate) -> str:
    reason = f"batch {batch}"
    if candidate.score is not None:
        reason += f": held-out score {candidate.score_before:.3f} -> {candidate.score:.3f}"
    release = add_release(
        connection,
        rules.name,
        candidate.version,
        by="worker",
        reason=reason,
        score=candidate.score,
        batch=batch,
    )
    table = tables.release
    if connection.scalar(sa.select(table.c.state).where(table.c.id == release)) == "published":
        return release  # a person has restored it while the batch was being learned from
    connection.execute(sa.update(table).where(table.c.id == release).values(state="candidate"))
    is_measured = candidate.score is not None
    if rules.publish == "always" or (rules.publish == "gate" and is_measured and not candidate.is_worse):
        publish(connection, release, by="worker")
    elif not candidate.is_worse:
        add_review(connection, rules.name, "release", reason=reason, release=release)
    return release


@final
class _Spent:
    """Writes what a batch has spent and how far it is into its row, at most once in a second.

    Args:
        batch: The id of the batch.
    """

    def __init__(self, service: Service, batch: str) -> None:
        self._database = service.database
        self._batch = batch
        self._lock = threading.Lock()
        self._learned = 0
        self.counter = RunSpendCounter(batch)
        """The observer."""
        self._unwritten = RunSpend()
        self._written = time.monotonic()

    def sample_ended(self, result: SampleResult[ACEStepContext]) -> None:
        """Count a sample that was learned."""
        with self._lock:
            self._learned += result.error is None
            is_due = time.monotonic() - self._written >= _WRITE_SECONDS
        if is_due:
            self.write()

    def write(self) -> None:
        """Write what was counted since the last call."""
        with self._lock:
            self._unwritten = spent = self._unwritten.plus(self.counter.taken())
            added: dict[str, float] = {
                "model_calls": spent.models.calls,
                "tokens": spent.models.input_tokens + spent.models.output_tokens,
                "accepted": spent.accepted,
                "refused": spent.refused,
            }
            if spent.models.calls > spent.models.unpriced_calls:  # else the price stays unknown
                added["cost"] = spent.models.cost_usd
            values = {name: sa.func.coalesce(_BATCH.c[name], 0) + value for name, value in added.items()}
            of_batch = sa.update(_BATCH).where(_BATCH.c.id == self._batch)
            try:
                with self._database.writing() as connection:
                    before = connection.scalar(sa.select(_BATCH.c.steps).where(_BATCH.c.id == self._batch))
                    steps = RunSpend(steps=steps_from_json(before)).plus(spent).steps
                    connection.execute(of_batch.values(learned=self._learned, steps=_steps_to_json(steps), **values))
            except DatabaseUnavailableError as error:  # they are written with the next ones
                logger.debug("Batch %s: its counters cannot be written: %s", self._batch, error)
                return
            self._unwritten = RunSpend()
            self._written = time.monotonic()


def _steps_to_json(steps: Mapping[str, StepTimes]) -> str:
    return json.dumps({step: times._asdict() for step, times in steps.items()})
