"""The tools. Their functions block, so the server calls them on threads."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from mcp.types import ToolAnnotations
from pydantic import BaseModel

from ace import LLMCallError, LLMError, PipelineCancelled, Skillbook
from ace.environments import Sample
from ace.integrations import counted
from ace.outputs import AgentOutput
from ace.protocols import Usage
from ace.retrieval import LexicalRanker
from ace.runners import Answer
from ace.skillbook import SkillbookError, has_scheme
from ace_mcp.errors import ErrorCode, MCPToolError
from ace_mcp.installation import RECORDS_FILE
from ace_mcp.learning import LearningRun
from ace_mcp.models import (
    AskInput,
    AskOutput,
    GetSkillbookInput,
    GetSkillbookOutput,
    LearnFeedbackInput,
    LearnSampleInput,
    LearnSampleOutput,
    LearnTraceInput,
    LearnTraceOutput,
    SkillbookFileInput,
    SkillbookFileOutput,
    SkillbookStats,
    SkillOutput,
    SkillSource,
)

if TYPE_CHECKING:
    from ace import Skill
    from ace_mcp.config import MCPServerConfig
    from ace_mcp.learning import Progress
    from ace_mcp.sessions import Session, SessionRegistry
    from ace_mcp.stopping import Stop

__all__ = ["SkillbookTool", "SkillbookTools"]

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ASKS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
LEARNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
SAVES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
LOADS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)

_SKILLBOOK_SUFFIXES = (".json", ".db")
_PLAIN_NAME = re.compile(r"[^\W_](?:[\w .-]*[\w-])?")
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
"""The names that Windows does not take for files."""


@dataclass(frozen=True, slots=True)
class SkillbookTool:
    """A tool, as clients see it, and the function that implements it."""

    name: str
    """Its name."""
    title: str
    """Its display name."""
    description: str
    """What it does."""
    input: type[BaseModel]
    """Its arguments."""
    output: type[BaseModel]
    """Its result."""
    annotations: ToolAnnotations
    """Hints for clients, such as whether the tool only reads."""
    call: Callable[[Any, Stop, Progress], BaseModel]
    """The implementation. It takes the arguments, of the type `input`, a `Stop`, and a function that reports
    progress."""
    as_text: Callable[[Any], str]
    """Formats the result, of the type `output`, as text for people."""


@final
class SkillbookTools:
    """The implementations of the tools.

    Args:
        config: The settings of the server.
    """

    def __init__(self, sessions: SessionRegistry, config: MCPServerConfig) -> None:
        self._sessions = sessions
        self._config = config

    def all(self) -> list[SkillbookTool]:
        """Return the tools, in the order in which they are listed."""
        return [
            SkillbookTool(
                "ace.ask",
                "Ask with skills",
                "Answer a question with the learned skills in the prompt. Afterwards, report with ace.learn.feedback "
                "whether the answer was right, so that later answers are better.",
                AskInput,
                AskOutput,
                ASKS,
                self.ask,
                _answer_text,
            ),
            SkillbookTool(
                "ace.learn.sample",
                "Learn from samples",
                "Answer questions, compare the answers with the right ones, and learn skills from the mistakes.",
                LearnSampleInput,
                LearnSampleOutput,
                LEARNS,
                self.learn_samples,
                _samples_text,
            ),
            SkillbookTool(
                "ace.learn.feedback",
                "Learn from feedback",
                "Learn from what was right or wrong about an answer. Give the answer_id if ace.ask gave the answer.",
                LearnFeedbackInput,
                LearnTraceOutput,
                LEARNS,
                self.learn_feedback,
                _learned_text,
            ),
            SkillbookTool(
                "ace.learn.trace",
                "Learn from a trace",
                "Learn from the record of what an agent did: its messages, its answer, or any other text or JSON.",
                LearnTraceInput,
                LearnTraceOutput,
                LEARNS,
                self.learn_trace,
                _learned_text,
            ),
            SkillbookTool(
                "ace.skillbook.get",
                "Show skills",
                "Return the learned skills, with their counters and sources.",
                GetSkillbookInput,
                GetSkillbookOutput,
                READS,
                self.get_skillbook,
                _skillbook_text,
            ),
            SkillbookTool(
                "ace.skillbook.save",
                "Save the skillbook",
                "Write a copy of the skillbook into a file. Learned skills are kept without it.",
                SkillbookFileInput,
                SkillbookFileOutput,
                SAVES,
                self.save_skillbook,
                lambda output: f"Saved {counted(output.count, 'skill')} to {output.path}",
            ),
            SkillbookTool(
                "ace.skillbook.load",
                "Load a skillbook",
                "Add the skills of a file to the skillbook. Those that it has already are not added again.",
                SkillbookFileInput,
                SkillbookFileOutput,
                LOADS,
                self.load_skillbook,
                lambda output: f"Added {counted(output.count, 'skill')} from {output.path}",
            ),
        ]

    def ask(self, request: AskInput, stop: Stop, progress: Progress) -> AskOutput:
        """Answer a question.

        Args:
            request: The arguments.
            stop: Stops it.
            progress: Not called.

        Raises:
            MCPToolError: It cannot be answered.
        """
        with self._sessions.using(request.session_id, stop, request.session_config) as session:
            with _model_errors(session, stop):
                answer = session.learner.ask(request.question, request.context)
            session.remember(answer, request.metadata)
            return AskOutput(
                session_id=session.id,
                answer_id=answer.id,
                answer=str(answer),
                skill_ids=list(answer.skill_ids),
                skill_count=len(session.learner.skillbook),
            )

    def learn_samples(self, request: LearnSampleInput, stop: Stop, progress: Progress) -> LearnSampleOutput:
        """Answer samples and learn from them.

        Args:
            request: The arguments.
            stop: Stops it.
            progress: Called after each sample.

        Raises:
            MCPToolError: Nothing can be learned, or the run was stopped.
        """
        self._check_not_safe("learning")
        samples = [
            Sample(sample.question, sample.context, sample.ground_truth, dict(sample.metadata or {}))
            for sample in request.samples
        ]
        with self._sessions.using(request.session_id, stop, request.session_config) as session:
            run = self._run(session, stop, progress)
            run.learn_samples(samples, request.epochs)
            failures = run.failures
            return LearnSampleOutput(processed=run.processed, failed=len(failures), failures=failures, **run.counts)

    def learn_feedback(self, request: LearnFeedbackInput, stop: Stop, progress: Progress) -> LearnTraceOutput:
        """Learn from feedback on an answer.

        Args:
            request: The arguments.
            stop: Stops it.
            progress: Told when it has been learned.

        Raises:
            MCPToolError: The answer_id names another answer, nothing can be learned, or the run was stopped.
        """
        self._check_not_safe("learning")
        with self._sessions.using(request.session_id, stop, request.session_config) as session:
            answer = _answer_meant(session, request)
            trace = answer.trace(request.feedback, request.ground_truth)
            if metadata := session.metadata.get(answer.id):
                trace["metadata"] = metadata
            return self._learned_from(trace, session, stop, progress)

    def learn_trace(self, request: LearnTraceInput, stop: Stop, progress: Progress) -> LearnTraceOutput:
        """Learn from a trace.

        Args:
            request: The arguments.
            stop: Stops it.
            progress: Told when it has been learned.

        Raises:
            MCPToolError: Nothing can be learned, or the run was stopped.
        """
        self._check_not_safe("learning")
        with self._sessions.using(request.session_id, stop, request.session_config) as session:
            return self._learned_from(request.trace, session, stop, progress)

    def get_skillbook(self, request: GetSkillbookInput, stop: Stop, progress: Progress) -> GetSkillbookOutput:
        """Return skills.

        Args:
            request: The arguments.
            stop: Not used.
            progress: Not called.

        Raises:
            MCPToolError: There is no such session.
        """
        if request.query is not None and request.include_invalid:
            raise MCPToolError(
                ErrorCode.VALIDATION_ERROR, "query only finds active skills; omit query or include_invalid"
            )
        with self._sessions.reading(request.session_id) as book:
            return GetSkillbookOutput(
                session_id=request.session_id,
                stats=_stats(book),
                skills=[_skill_output(skill) for skill in _selected(book, request)],
            )

    def save_skillbook(self, request: SkillbookFileInput, stop: Stop, progress: Progress) -> SkillbookFileOutput:
        """Write a copy of the skillbook.

        Args:
            request: The arguments.
            stop: Not used.
            progress: Not called.

        Raises:
            MCPToolError: The path is not allowed, or cannot be written.
        """
        path = self._allowed_path(request.path, "saving")
        _check_name(request.path)
        with self._sessions.reading(request.session_id) as book, _file_errors(request.path):
            path.parent.mkdir(parents=True, exist_ok=True)
            book.save_to_file(path, overwrite=True)
            return SkillbookFileOutput(session_id=request.session_id, path=str(path), count=len(book))

    def load_skillbook(self, request: SkillbookFileInput, stop: Stop, progress: Progress) -> SkillbookFileOutput:
        """Add the skills of a file.

        Args:
            request: The arguments.
            stop: Stops what uses the session.
            progress: Not called.

        Raises:
            MCPToolError: The path is not allowed, or is not a skillbook.
        """
        path = self._allowed_path(request.path, "loading")
        with _file_errors(request.path):
            found = Skillbook.load_from_file(path)
        with self._sessions.using(request.session_id, stop) as session:
            book = session.learner.skillbook
            book.refresh()
            known = {skill.content for skill in book.skills()}
            for skill in found.skills(include_invalid=True):
                if skill.content in known or skill.status != "active":
                    found.remove_skill(skill.id)
            added = book.import_skills(found)
            return SkillbookFileOutput(session_id=session.id, path=str(path), count=len(added))

    def _learned_from(self, trace: object, session: Session, stop: Stop, progress: Progress) -> LearnTraceOutput:
        run = self._run(session, stop, progress)
        run.learn_trace(trace)
        failures = run.failures
        if failures and not run.processed:
            raise MCPToolError(ErrorCode.VALIDATION_ERROR, f"nothing can be learned from it: {failures[0].what}")
        return LearnTraceOutput(learned=run.has_changed, failures=failures, **run.counts)

    def _run(self, session: Session, stop: Stop, progress: Progress) -> LearningRun:
        self._sessions.check_budget()
        return LearningRun(session, stop, progress, self._sessions.budget_left)

    def _check_not_safe(self, doing: str) -> None:
        if self._config.safe_mode:
            raise MCPToolError(
                ErrorCode.FORBIDDEN_IN_SAFE_MODE,
                f"{doing} is disabled in safe mode, in which this server runs; ask, or show skills",
            )

    def _allowed_path(self, path: str, doing: str) -> Path:
        """Return the file for a path of a client, which must be below the root even after links are followed."""
        self._check_not_safe(doing)
        if not self._config.allow_save_load:
            raise MCPToolError(ErrorCode.SAVE_LOAD_DISABLED, f"{doing} is disabled on this server (allow_save_load)")
        root = self._config.skillbook_root.expanduser().resolve()
        try:
            found = (root / path).resolve()
            # Newer versions of Python resolve links in a circle without an error.
            is_circle = os.path.islink(found)  # noqa: PTH114  # `is_symlink` raises for a name that is too long
        except (OSError, ValueError, RuntimeError):  # an impossible file name, or a circle of links
            is_circle, found = False, None
        if found is None or is_circle or has_scheme(path) or ".." in Path(path).parts or not found.is_relative_to(root):
            raise MCPToolError(
                ErrorCode.SAVE_LOAD_DISABLED,
                f"{doing} is only allowed below the folder for skillbooks; give a path like team.json, without '..'",
            )
        return found


@contextmanager
def _model_errors(session: Session, stop: Stop) -> Iterator[None]:
    try:
        yield
    except PipelineCancelled as error:
        raise MCPToolError(ErrorCode.TIMEOUT, f"the question was stopped ({stop.reason}); ask it again") from error
    except LLMCallError as error:
        raise MCPToolError(ErrorCode.PROVIDER_ERROR, session.explain(error), status=error.status_code) from error
    except LLMError as error:
        raise MCPToolError(ErrorCode.PROVIDER_ERROR, f"the model gave no usable answer: {error}") from error


def _check_name(path: str) -> None:
    """Reject names that are not those of a skillbook, that a shell or a system gives a meaning, or that are ours."""
    parts = [part.lower() for part in Path(path).parts]
    is_usable = all(_PLAIN_NAME.fullmatch(part) and part.partition(".")[0] not in _DEVICES for part in parts)
    if not is_usable or Path(path).suffix.lower() not in _SKILLBOOK_SUFFIXES or parts[-1] == RECORDS_FILE:
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR,
            f"path: {path!r} cannot be saved to; give a .json or .db file whose name begins with a letter or digit, "
            "such as team.json",
        )


@contextmanager
def _file_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MCPToolError(ErrorCode.VALIDATION_ERROR, f"path: no such file: {path!r}") from error
    except OSError as error:
        raise MCPToolError(ErrorCode.VALIDATION_ERROR, f"path: {path!r}: {error.strerror or error}") from error
    except (SkillbookError, ValueError) as error:
        raise MCPToolError(ErrorCode.VALIDATION_ERROR, f"path: {error}") from error


def _answer_meant(session: Session, request: LearnFeedbackInput) -> Answer:
    """Return the answer that the feedback is about: an answer of the session if it matches, else a new one."""
    if request.answer_id is None:
        last = session.last_answer
        if last is not None and _is_about(request, last):
            return last
        output = AgentOutput(reasoning="", final_answer=request.answer)
        return Answer.of(output, request.question, request.context, Usage())
    answer = session.answers.get(request.answer_id)
    if answer is None:
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR,
            f"answer_id: the session {session.id!r} does not remember this answer; omit answer_id, and the feedback is "
            "learned from the question and the answer",
        )
    if not _is_about(request, answer):
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR,
            "answer_id: it belongs to another question or answer; give the question and the answer of that call, or "
            "omit answer_id",
        )
    return answer


def _is_about(request: LearnFeedbackInput, answer: Answer) -> bool:
    return request.question.split() == answer.question.split() and request.answer.split() == str(answer).split()


def _selected(book: Skillbook, request: GetSkillbookInput) -> list[Skill]:
    skills = book.skills(include_invalid=request.include_invalid)
    if request.section is not None:
        skills = [skill for skill in skills if skill.section == request.section]
    if request.query is not None:
        skills = matching(request.query, skills, request.limit)
    return skills[: request.limit]


def matching(query: str, skills: list[Skill], limit: int) -> list[Skill]:
    """Return the skills that share words with a query, best first.

    Args:
        limit: The maximum number of skills.
    """
    ranker = LexicalRanker()
    scores = dict(zip((skill.id for skill in skills), ranker(query, skills), strict=True))
    return [skill for skill in ranker.best(query, skills, limit) if scores[skill.id] > 0]


def _stats(book: Skillbook) -> SkillbookStats:
    skills = book.skills()
    return SkillbookStats(
        skills=len(skills),
        sections=len(book.section_names()),
        helpful=sum(skill.helpful for skill in skills),
        harmful=sum(skill.harmful for skill in skills),
        neutral=sum(skill.neutral for skill in skills),
    )


def _skill_output(skill: Skill) -> SkillOutput:
    sources = [SkillSource(trace_id=source.trace_id, question=source.sample_question) for source in skill.sources]
    return SkillOutput(
        id=skill.id,
        content=skill.content,
        section=skill.section,
        status=skill.status,
        reason=skill.reason,
        evidence=list(skill.evidences),
        helpful=skill.helpful,
        harmful=skill.harmful,
        neutral=skill.neutral,
        sources=sources,
    )


def _answer_text(output: AskOutput) -> str:
    used = f"\n\nSkills used: {', '.join(output.skill_ids)}" if output.skill_ids else ""
    return f"{output.answer}{used}\n\nanswer_id: {output.answer_id}"


def _samples_text(output: LearnSampleOutput) -> str:
    failures = [f"- sample {failure.index} failed: {failure.what}" for failure in output.failures]
    head = f"Learned from {counted(output.processed, 'sample')}, {output.failed} failed."
    return "\n".join([head, *failures, *_skill_lines(output)])


def _learned_text(output: LearnTraceOutput) -> str:
    head = "Learned." if output.learned else "There was nothing new to learn."
    return "\n".join([head, *_skill_lines(output)])


def _skill_lines(output: LearnSampleOutput | LearnTraceOutput) -> list[str]:
    pending = f" Lessons that wait for a review: {output.pending_count}." if output.pending_count else ""
    known = f"The skillbook has {counted(output.skill_count_after, 'skill')}, {output.new_skill_count} new.{pending}"
    return [known, *(f"- [{skill.id}] {skill.content}" for skill in output.skills)]


def _skillbook_text(output: GetSkillbookOutput) -> str:
    lines = [f"- [{skill.id}] {skill.content}{_status_text(skill)}" for skill in output.skills]
    return "\n".join([f"The skillbook has {counted(output.stats.skills, 'skill')}.", *lines])


def _status_text(skill: SkillOutput) -> str:
    reason = f": {skill.reason}" if skill.reason else ""
    return "" if skill.status == "active" else f" ({skill.status}{reason})"
