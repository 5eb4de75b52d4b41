"""Learns from stored sessions, each turn once."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, final, get_args

from ace.cli import CommandContext
from ace.context import ACEStepContext
from ace.integrations import (
    LEARNER_AT_WORK,
    Job,
    JobQueue,
    Record,
    counted,
    list_in,
    mapping_in,
    number_in,
    observing,
    text_in,
)
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult
from ace.protocols import LLMAuthenticationError, LLMCallError, LLMClientLike
from ace.redaction import Redactor, SensitiveClass
from ace.runners import LearningOptions, RunOptions, SpendLedger, TraceAnalyser, has_run, spend_of_days
from ace.skill import Provenance, Unproven
from ace.skillbook import Skillbook, SkillbookError, SkillSearch
from ace.steps import GuardedKind
from ace_claude_code.conversation import read_conversation
from ace_claude_code.llm_client import ClaudeCodeLLMClient
from ace_claude_code.records import TranscriptError, read_records
from ace_claude_code.sessions.home import (
    LEARNER_MODULE,
    OWN_COMMAND,
    learned_path,
    skillbook_path,
    state_folder,
    transcripts_folder,
)
from ace_claude_code.sessions.learned import NoteLearnedStep
from ace_claude_code.sessions.learner_model import own_model
from ace_claude_code.sessions.open_sessions import is_private_session
from ace_claude_code.sessions.settings import SessionSettings
from ace_claude_code.sessions.stored import key_of_transcript, stored_sessions
from ace_claude_code.to_trace import transcript_to_turn_traces

__all__ = ["LearningReport", "NothingToLearnError", "SessionAnalyser", "SessionLearner", "learn_now", "opened_learner"]

# All sessions of a project are one run, which is resumed each time: its record in the store contains exactly the turns
# that were learned from, and the answers of the model that would be lost in a crash.
_RUN = "sessions"
# The time without a change after which a session without a final answer counts as ended.
_IDLE_SECONDS = 600.0
# The words of turns that do not request anything. "no" is not included, because it may be a correction.
_TRIVIAL_WORDS = frozenset(
    {
        *("a", "all", "bye", "cheers", "cool", "fine", "for", "good", "got", "great", "hello", "hey", "hi", "it"),
        *("job", "k", "looks", "much", "nice", "now", "ok", "okay", "perfect", "please", "so", "super", "sure"),
        *("thank", "thanks", "that", "the", "thx", "very", "well", "yeah", "yep", "yes", "you"),
    }
)
_MOST_TRIVIAL_WORDS = 6
# `reasoning` has the texts of the steps once more, each after what kind of step it is.
_FIELDS_WITH_TEXT = ("question", "context", "reasoning", "answer", "feedback", "steps", "dialogue")


class SessionAnalyser(TraceAnalyser):
    """Learns from the turns of stored sessions."""

    integration: ClassVar[str] = "claude_code"


@dataclass
class LearningReport:
    """The outcome of a run over stored sessions."""

    sessions: int = 0
    """The number of sessions that were read."""
    turns_learned: int = 0
    turns_known: int = 0
    """Turns that were learned in earlier runs."""
    turns_trivial: int = 0
    """Turns from which nothing can be learned, such as thanks; they cost no model call."""
    private_sessions: int = 0
    """Sessions that the user keeps private."""
    turns_unfinished: int = 0
    """Turns that have not ended yet, or were not started because the run was interrupted; a later run learns them."""
    skipped_lines: int = 0
    """Lines without a record, such as truncated ones."""
    unknown_records: int = 0
    """Records of an unknown type."""
    without_prompt: list[str] = field(default_factory=list)
    """Sessions in which the user asked nothing."""
    problems: list[str] = field(default_factory=list)
    """The sessions and turns that could not be learned from, with the reasons."""
    outage: str = ""
    """Why the model could not be reached, or refused this account; empty if it answered."""


@final
class SessionLearner:
    """Learns from sessions, one after the other. The caller must hold the learner's lock.

    Args:
        state: The folder of the state.
        client: Creates the client of the model that learns. It is only called if there is something to learn.
        allow: The classes of sensitive text that are not redacted or rejected.
        provenance: What to record about the source of each skill.
        unproven: What to do with skills that nothing shows to be right; see `ace.skill.Unproven`.
        cancel_token: Stops learning; the remaining turns are learned the next time.
        budget_usd: The daily limit on the cost of all learners, in US dollars; None sets no limit. Calls whose price is
            not known are not counted.
    """

    def __init__(
        self,
        state: Path,
        client: Callable[[], LLMClientLike],
        *,
        allow: Collection[GuardedKind] = (),
        provenance: Provenance = "full",
        unproven: Unproven = "pending",
        cancel_token: CancellationToken | None = None,
        budget_usd: float | None = None,
    ) -> None:
        self._budget_usd = budget_usd
        self.report = LearningReport()
        self._state = state
        self._queue = JobQueue(state)
        self._client = client
        self._allow = allow
        self._provenance = provenance
        self._unproven = unproven
        self._token = CancellationToken() if cancel_token is None else cancel_token
        self._unusable: dict[str, SkillbookError] = {}

    def learn(self, transcript: Path, *, may_be_open: bool = False) -> None:
        """Learn from the new turns of a session. Problems are added to the report.

        Args:
            transcript: The file of the session.
            may_be_open: Whether the session may still continue; a last turn without an answer is skipped then.

        Raises:
            LLMAuthenticationError: The model that learns requires a key or a login.
            ClaudeNotFoundError: The model is one of Claude Code, and its binary was not found.
        """
        self.report.sessions += 1
        try:
            conversation = read_conversation(read_records(transcript))
            if conversation.is_private or is_private_session(self._state, conversation.session_id):
                self.report.private_sessions += 1
                return
            traces = transcript_to_turn_traces(transcript)
        except TranscriptError as error:
            self.report.problems.append(str(error))
            return
        if not traces:
            self.report.without_prompt.append(str(transcript))
            return
        metadata = mapping_in(traces[0], "metadata")
        self.report.skipped_lines += int(number_in(metadata, "skipped_lines") or 0)
        self.report.unknown_records += sum(
            count for count in mapping_in(metadata, "unknown_types").values() if isinstance(count, int)
        )
        if may_be_open and not _has_answer(traces[-1]) and time.time() - transcript.stat().st_mtime < _IDLE_SECONDS:
            self.report.turns_unfinished += 1
            traces = traces[:-1]
        worth = [trace for trace in _without_secrets(traces, self._allow) if not _is_trivial(trace)]
        self.report.turns_trivial += len(traces) - len(worth)
        try:
            self._learn(worth, key_of_transcript(transcript, text_in(metadata, "cwd")))
        except SkillbookError as error:
            self.report.problems.append(f"{transcript}: {error}")

    def learn_job(self, job: Job) -> None:
        """Learn from a session in the queue, and remove it from the queue unless that failed.

        Raises:
            LLMAuthenticationError: As `learn`.
            ClaudeNotFoundError: As `learn`.
        """
        transcript = job.field("transcript")
        if not transcript:
            problem = f"{job.path} names no transcript; delete it"
            self.report.problems.append(problem)
            self._queue.note_failure(job, problem)
            return
        if not Path(transcript).exists():  # Claude Code deletes old ones, and some sessions are never stored
            self._queue.remove(job)
            return
        if self._budget_usd is not None and self._left_of_budget() <= 0:
            self._token.cancel("max_cost")
            return
        problems = len(self.report.problems)
        self.learn(Path(transcript))
        if len(self.report.problems) > problems:
            self._queue.note_failure(job, self.report.problems[-1], is_outage=bool(self.report.outage))
        elif not self._token.is_cancelled:
            self._queue.remove(job)

    def _learn(self, traces: Sequence[Record], key: str) -> None:
        if key in self._unusable:
            raise self._unusable[key]
        try:
            with closing(Skillbook.open(skillbook_path(self._state, key))) as book:
                note = NoteLearnedStep(learned_path(self._state, key), book, provenance=self._provenance)
                analyser = self._analyser(book, note)
                options: RunOptions = {
                    "run_id": _RUN,
                    "resume": has_run(book, _RUN),
                    "cancel_token": self._token,
                }
                if self._budget_usd is not None:
                    options["max_cost"] = self._left_of_budget()
                with observing(SpendLedger(self._state)):
                    results = analyser.run(traces, **options)
        except SkillbookError as error:  # skip the other sessions of the project, which need the same lock
            self._unusable[key] = error
            raise
        SkillSearch(skillbook_path(self._state, key)).close()  # the next prompt finds its index ready
        for trace, result in zip(traces, results, strict=True):
            self._count(trace, result)

    def _left_of_budget(self) -> float:
        assert self._budget_usd is not None
        return self._budget_usd - spend_of_days(self._state).cost_usd

    def _count(self, trace: Record, result: SampleResult[ACEStepContext]) -> None:
        if isinstance(result.error, PipelineCancelled):
            self.report.turns_unfinished += 1
        elif isinstance(result.error, LLMAuthenticationError):
            raise result.error
        elif result.error is not None:
            metadata = mapping_in(trace, "metadata")
            place = f"{text_in(metadata, 'source')}, turn {number_in(metadata, 'turn') or 0:g}"
            problem = f"{place}: {result.failed_at}: {result.error}"
            self.report.problems.append(problem)
            cause = result.error if result.cause is None else result.cause
            if isinstance(cause, LLMCallError) and not cause.concerns_one_request:
                self.report.outage = problem
        elif result.output is not None and result.output.metadata.get("already_learned"):
            self.report.turns_known += 1
        else:
            self.report.turns_learned += 1

    def _analyser(self, book: Skillbook, last_step: NoteLearnedStep) -> SessionAnalyser:
        options: LearningOptions = {
            "skillbook": book,
            "extra_steps": [last_step],
            "allow": self._allow,
            "provenance": self._provenance,
            "unproven": self._unproven,
        }
        return SessionAnalyser.from_client(self._client(), **options)


@contextmanager
def opened_learner(
    context: CommandContext,
    state: Path,
    installed: SessionSettings,
    *,
    allow: Sequence[GuardedKind] = (),
    cancel_token: CancellationToken | None = None,
    budget_usd: float | None = None,
) -> Iterator[SessionLearner]:
    """Open a learner with the settings of the user, in which the installation chooses the model.

    Args:
        context: Gives the settings and the model.
        state: The folder of the state.
        installed: The model of the installation, or of the command.
        allow: The classes of sensitive text that are not redacted or rejected; if empty, those of the settings.
        cancel_token: Stops learning.
        budget_usd: As for `SessionLearner`.

    Raises:
        UsageError: A setting is invalid, or the model cannot be called.
    """
    from ace.integrations import warnings_shown

    settings = context.settings(
        model=installed.model or None, api_base=installed.api_base or None, allow=",".join(allow) or None
    )
    own = own_model(installed.model)
    if own is not None:
        with warnings_shown():
            yield SessionLearner(
                state,
                lambda: ClaudeCodeLLMClient(own, claude=installed.claude or None, api_base=installed.api_base or None),
                allow=settings.learning.allow,
                provenance=settings.learning.provenance,
                unproven=settings.learning.unproven,
                cancel_token=cancel_token,
                budget_usd=budget_usd,
            )
        return
    with context.model(settings) as client:
        yield SessionLearner(
            state,
            lambda: client,
            allow=settings.learning.allow,
            provenance=settings.learning.provenance,
            unproven=settings.learning.unproven,
            cancel_token=cancel_token,
            budget_usd=budget_usd,
        )


def _without_secrets(traces: Sequence[Record], allow: Collection[GuardedKind]) -> list[Record]:
    """Redact the secrets of a session in its traces, including repetitions without a label.

    Texts in the form of a secret are redacted later as well, one by one. This function knows the whole session, such as
    a password that is set in a file and typed by the agent in a later turn.
    """
    secrets = Redactor(allow=allow).secrets_in([trace.get(name) for trace in traces for name in _FIELDS_WITH_TEXT])
    if not secrets:
        return list(traces)
    redactor = Redactor(secrets, allow=get_args(SensitiveClass))
    return [
        {**trace, **{name: redactor.redact_value(trace[name]) for name in _FIELDS_WITH_TEXT if name in trace}}
        for trace in traces
    ]


def _is_trivial(trace: Record) -> bool:
    """Return whether nothing can be learned from a turn: the user thanks, greets or agrees, and the agent answers."""
    if trace.get("success") is False:
        return False
    steps = [step for step in list_in(trace, "steps") if isinstance(step, dict)]
    if any(step["kind"] in ("call", "result") for step in steps):
        return False
    if text_in(trace, "question").startswith(OWN_COMMAND):
        return True
    words = re.findall(r"\w+", text_in(trace, "question").lower())
    return len(words) <= _MOST_TRIVIAL_WORDS and all(word in _TRIVIAL_WORDS for word in words)


def _has_answer(trace: Record) -> bool:
    """Return whether a turn ends with a text of the model or an API error."""
    steps = [step for step in list_in(trace, "steps") if isinstance(step, dict)]
    return bool(steps) and steps[-1]["kind"] == "message" and steps[-1]["name"] == "assistant"


class NothingToLearnError(ValueError):
    """No session to learn from was found."""


def learn_now(
    learner: SessionLearner,
    transcripts: Sequence[Path],
    project: Path | None,
    *,
    cancel_token: CancellationToken,
    tell: Callable[[str], None],
) -> LearningReport:
    """Learn from transcripts, from all stored sessions of a project, or from the queued sessions.

    Waits for a running learner to finish.

    Args:
        learner: The learner to use.
        transcripts: Files of stored sessions.
        project: The project whose stored sessions are all learned, if any.
        cancel_token: The token of the learner, which stops it; the remaining turns are learned the next time.
        tell: Called with messages for the user during the run.

    Raises:
        NothingToLearnError: The project has no stored session.
        LLMAuthenticationError: The model that learns requires a key or a login.
        ClaudeNotFoundError: The model is one of Claude Code, and its binary was not found.
    """
    stored = [] if project is None else _stored(project)
    queue = JobQueue(state_folder())
    with queue.lock(wait=True, on_wait=lambda: tell(LEARNER_AT_WORK)):
        queued = [] if transcripts or stored else [*queue.waiting(), *queue.failed()]
        sessions: list[Path | Job] = [*(path.absolute() for path in transcripts), *stored, *queued]
        for number, session in enumerate(sessions, 1):
            if cancel_token.is_cancelled:
                break
            before = learner.report.turns_learned
            if isinstance(session, Job):
                learner.learn_job(session)
            else:
                learner.learn(session, may_be_open=session in stored)
            if learner.report.turns_learned > before:
                learned = learner.report.turns_learned - before
                tell(f"session {number} of {len(sessions)}: {counted(learned, 'turn')} learned")
    # Sessions that ended while the lock was held did not start a learner.
    if not cancel_token.is_cancelled and any(job.attempts == 0 for job in queue.waiting()):
        queue.start_learner(LEARNER_MODULE)
    return learner.report


def _stored(project: Path) -> list[Path]:
    stored = stored_sessions(project)
    if not stored:
        raise NothingToLearnError(
            f"Claude Code has stored no session of {str(project)!r} in {transcripts_folder()}; "
            "run it there first, or name the project with --project"
        )
    return stored
