"""Evaluation: an agent answers samples with a skillbook, and an environment judges the answers. Nothing is learned."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, final

from ace._internal.arguments import check_sample, checked_arguments, checked_class, whole_number, with_method
from ace._internal.atomic_file import append_line
from ace.calls.model_calls import call_scope, current_call_scope
from ace.context import ACESample, ACEStepContext, SelectedSkills, SkillbookView
from ace.evaluation.call_costs import EVALUATION_PREFIX, CallCosts
from ace.evaluation.evaluation import Evaluation, JudgedAnswer
from ace.pipeline import CancellationToken, Pipeline, SampleResult, StepProtocol
from ace.protocols.observers import observing
from ace.runners.spend import RunLimits
from ace.skillbook import Skillbook
from ace.steps import AgentStep, EvaluateStep

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.roles import AgentLike, Retrieval

__all__ = ["AnswerFile", "Budget", "Evaluator", "read_kept_lines", "sample_names"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One sample in one repeat."""

    place: int
    """Its position among all attempts."""
    sample: ACESample
    name: str
    """The name of the sample."""
    repeat: int
    """The number of the attempt at the sample, from 1."""
    key: str
    """A hash of everything that the answer depends on; empty if no file keeps the answers."""


def _attempts_at(samples: Sequence[ACESample], repeats: int, keys: _AnswerKeys | None = None) -> list[_Attempt]:
    """Return the attempts in the order of the samples; the repeats of a sample follow each other."""
    attempts: list[_Attempt] = []
    for sample, name in zip(samples, sample_names(samples), strict=True):
        skills = "" if keys is None else keys.skills_for(sample)
        for repeat in range(1, repeats + 1):
            texts = (skills, name, str(repeat), sample.question, sample.context, sample.ground_truth)
            attempts.append(_Attempt(len(attempts), sample, name, repeat, "" if keys is None else text_hash(*texts)))
    return attempts


@final
class _AnswerKeys:
    """Hashes of what answers depend on besides their samples.

    Args:
        book: The skills.
        retrieval: Chooses the skills that an agent sees; then an answer depends only on these.
        label: Everything else that answers depend on.
    """

    def __init__(self, book: Skillbook, retrieval: Retrieval | None, label: str) -> None:
        self._view = SkillbookView(book)
        self._retrieval = retrieval
        self._label = label
        self._whole_book = text_hash(label, book.as_prompt()) if retrieval is None else ""

    def skills_for(self, sample: ACESample) -> str:
        """Return a hash of the skills that the agent sees with a sample, and of the label."""
        if self._retrieval is None:
            return self._whole_book
        try:
            chosen = SelectedSkills(self._view, self._retrieval(sample.question, self._view)).as_prompt()
        except Exception:
            chosen = ""  # AgentStep raises it again for the sample, and failed answers are not reused
        return text_hash(self._label, chosen)


@checked_class
@final
class AnswerFile:
    """A file of JSON lines, each with a key and a judged answer.

    The key identifies everything that the answer depends on. A failed answer is only kept for the record; the question
    is asked again.

    Args:
        path: The file; it is created with the first answer.

    Raises:
        ValueError: A line is not a judged answer, and is not just cut off by the end of a process; the message names
            the line.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        kept = read_kept_lines(
            self.path,
            "key",
            lambda key, data: (key, JudgedAnswer.from_dict(data)),
            what="judged answer",
            instead="give the path of another file",
        )
        self._known = dict(kept)

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str) -> JudgedAnswer | None:
        """Return the answer that was kept under a key, if it did not fail."""
        found = self._known.get(key)
        return None if found is None or found.error is not None else found

    def keep(self, key: str, answer: JudgedAnswer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            append_line(self.path, json.dumps({"key": key, **answer.to_dict()}))
            self._known[key] = answer


def read_kept_lines(
    path: Path, first: str, read: Callable[[str, dict[str, Any]], T], *, what: str, instead: str
) -> list[T]:
    """Read the records of a file; empty if the file does not exist.

    A line that was cut off when its process was killed is skipped. It may be anywhere, because another process may have
    appended to the file since.

    Args:
        path: The file.
        first: The name of the first field of each record.
        read: Makes a record from the value of that field and from the other fields.
        what: The name of a record, for the error.
        instead: What to do if the file contains something else, for the error.

    Raises:
        ValueError: A line is not such a record; the message names it.
    """
    if not path.exists():
        return []
    found: list[T] = []
    beginning = f'{{"{first}"'
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            data = json.loads(line)
            found.append(read(str(data.pop(first)), data))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            text = line.strip()
            if isinstance(error, json.JSONDecodeError) and text.startswith(beginning[: len(text)]):
                continue
            raise ValueError(f"{path}, line {number}: this is not a {what} ({error}); {instead}") from error
    return found


@checked_arguments()
def sample_names(samples: Sequence[ACESample]) -> list[str]:
    """Return a name for each sample: its own id, else a hash of its texts. Repeated names get a number.

    Example:
        >>> from ace.environments import Sample
        >>> sample_names([Sample("2+2?", id="a"), Sample("3+3?", id="a")])
        ['a', 'a (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for sample in samples:
        name = getattr(sample, "id", None) or text_hash(sample.question, sample.context, sample.ground_truth)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def text_hash(*texts: str | None) -> str:
    """Return a short hash of texts; None differs from an empty text."""
    joined = "\x1f".join("\x00" if text is None else text for text in texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@checked_class
@final
class Evaluator:
    """Lets an agent answer samples, and an environment judge the answers. The skillbook is only read.

    Args:
        agent: Answers the questions.
        environment: Judges the answers; its metric `correct` is the score.
        retrieval: Chooses the skills that the agent sees; by default it sees them all.
        workers: How many agents run at once.
        answers_path: A file that keeps every answer. A question with an answer in it is not asked again, unless the
            answer failed.
        label: What the answers in that file depend on besides samples and skills, such as the name of the model, its
            settings and the environment. Answers with another label are not used.

    Raises:
        TypeError: The agent or the environment does not have the method that is called.
        ValueError: The file contains something else, or `workers` is below 1.
    """

    def __init__(
        self,
        agent: AgentLike,
        environment: TaskEnvironment,
        *,
        retrieval: Retrieval | None = None,
        workers: int = 1,
        answers_path: str | Path | None = None,
        label: str = "",
    ) -> None:
        with_method("agent", agent, "generate")
        with_method("environment", environment, "evaluate")
        whole_number("workers", workers)
        self.agent = agent
        self.environment = environment
        self.retrieval = retrieval
        self.workers = workers
        self.label = label
        self._file = None if answers_path is None else AnswerFile(answers_path)

    @checked_arguments()
    def evaluate(
        self,
        samples: Sequence[ACESample],
        skillbook: Skillbook | None = None,
        *,
        name: str = "learned",
        repeats: int = 1,
        max_cost: float | None = None,
        cancel_token: CancellationToken | None = None,
        on_answer: Callable[[JudgedAnswer], None] | None = None,
    ) -> Evaluation:
        """Answer and judge every sample. A sample that fails counts as wrong.

        Args:
            skillbook: The skills; none by default.
            name: The name of the evaluation, for reports.
            repeats: How often each sample is answered.
            max_cost: US dollars. Once the answers have cost this much, no further sample starts.
            cancel_token: Stops the evaluation; samples that have started are finished.
            on_answer: Called with each answer; with those from the file, at the beginning.

        Returns:
            The answers. If it was stopped, some are missing; the file has the others.

        Raises:
            TypeError: An item of `samples` is not a sample.
            ValueError: `samples` is empty, or an argument is invalid.
        """
        if not samples:
            raise ValueError("samples is empty; pass at least one sample to evaluate on")
        for number, sample in enumerate(samples, 1):
            check_sample(f"sample {number}", sample)
        whole_number("repeats", repeats)
        if max_cost is not None and not max_cost > 0:
            raise ValueError(f"max_cost must be more than 0 US dollars, got {max_cost!r}")
        book = Skillbook() if skillbook is None else skillbook
        prefix = f"{EVALUATION_PREFIX}{uuid.uuid4().hex}/"
        keys = None if self._file is None else _AnswerKeys(book, self.retrieval, self.label)
        attempts = _attempts_at(samples, repeats, keys)
        found: dict[int, JudgedAnswer] = {}
        for attempt in attempts:
            known = None if self._file is None else self._file.find(attempt.key)
            if known is not None:
                found[attempt.place] = replace(known, sample_id=attempt.name, repeat=attempt.repeat)
                if on_answer is not None:
                    on_answer(found[attempt.place])
        left = [attempt for attempt in attempts if attempt.place not in found]

        def keep(attempt: _Attempt, answer: JudgedAnswer) -> None:
            found[attempt.place] = answer
            if self._file is not None:
                self._file.keep(attempt.key, answer)
            if on_answer is not None:
                on_answer(answer)

        token = CancellationToken() if cancel_token is None else cancel_token
        stopped_by = self._answer(left, book, prefix, token, max_cost, keep) if left else ""
        answers = tuple(found[place] for place in sorted(found))
        paid = sum(found[attempt.place].cost or 0.0 for attempt in left if attempt.place in found)
        return Evaluation(name, answers, len(attempts), stopped_by if len(answers) < len(attempts) else "", paid)

    def _answer(
        self,
        attempts: Sequence[_Attempt],
        book: Skillbook,
        prefix: str,
        token: CancellationToken,
        max_cost: float | None,
        keep: Callable[[_Attempt, JudgedAnswer], None],
    ) -> str:
        """Answer the attempts, and keep each answer. Returns what stopped it."""
        began: dict[int, float] = {}
        costs = CallCosts(prefix)
        view = SkillbookView(book)
        everything = tuple(skill.id for skill in book.skills())

        def contexts() -> Iterator[ACEStepContext]:
            for attempt in attempts:
                if token.is_cancelled:
                    return
                began[attempt.place] = time.monotonic()
                about = MappingProxyType({"trace_id": f"{prefix}{attempt.place}"})
                yield ACEStepContext(sample=attempt.sample, skillbook=view, metadata=about)

        problems: list[BaseException] = []

        def done(result: SampleResult[ACEStepContext]) -> None:
            attempt = attempts[result.index]
            spent = costs.take(f"{prefix}{attempt.place}")
            try:
                answer = replace(
                    _judged(attempt, result, everything),
                    calls=spent.calls,
                    input_tokens=spent.input_tokens,
                    output_tokens=spent.output_tokens,
                    cached_input_tokens=spent.cached_input_tokens,
                    cache_write_tokens=spent.cache_write_tokens,
                    cost=spent.cost,
                    seconds=time.monotonic() - began.pop(attempt.place),
                )
                keep(attempt, answer)
            except BaseException as error:  # the pipeline would only log it, and continue to pay
                problems.append(error)
                token.cancel()

        # Inside a training run, the calls count towards that run, but are not recorded for it.
        scope = replace(current_call_scope(), store=None, answers=None, sample="")
        scope = scope if scope.run_id else replace(scope, run_id=prefix)
        limits = RunLimits(scope.run_id, token, max_cost, False)
        steps: list[StepProtocol[ACEStepContext]] = [
            AgentStep(
                self.agent,
                retrieval=self.retrieval,
                empty_counts=True,
                answers=1 + getattr(self.environment, "further_answers", 0),
            ),
            EvaluateStep(self.environment),
        ]
        with (
            call_scope(scope),
            observing(costs),
            observing(limits.observe),
            Pipeline[ACEStepContext](steps) as pipeline,
        ):
            # The token ends the input, not samples that have started: an answer that was paid for is judged and kept.
            pipeline.run(contexts(), self.workers, done)
        if problems:
            raise problems[0]
        return limits.stopped_by


def _judged(attempt: _Attempt, result: SampleResult[ACEStepContext], everything: tuple[str, ...]) -> JudgedAnswer:
    """Return the judgement of one attempt, without what it cost."""
    sample = attempt.sample
    blank = JudgedAnswer(
        sample_id=attempt.name,
        question=sample.question,
        repeat=attempt.repeat,
        correct=0.0,
        ground_truth=sample.ground_truth,
        shown=everything,
    )
    ctx = result.output
    if ctx is None or ctx.agent_output is None or not isinstance(ctx.trace, dict):
        return replace(blank, error=f"{type(result.error).__name__} in {result.failed_at}: {result.error}")
    trace = ctx.trace
    answered = replace(
        blank,
        answer=ctx.agent_output.final_answer,
        feedback=str(trace.get("feedback", "")),
        shown=tuple(ctx.metadata.get("shown_skill_ids", everything)),
        cited=tuple(ctx.agent_output.skill_ids),
    )
    correct = trace.get("metrics", {}).get("correct")
    if correct is None:
        return replace(answered, error=f"the environment returned no metric 'correct': {trace.get('feedback', '')}")
    try:
        return replace(answered, correct=float(correct))
    except (TypeError, ValueError, OverflowError) as error:
        return replace(answered, error=f"the environment returned an invalid metric 'correct': {error}")


@final
class Budget:
    """Makes evaluations until their common budget is spent.

    Args:
        max_cost: US dollars for all evaluations together; None sets no limit.
        cancel_token: Stops the evaluations.
    """

    def __init__(self, max_cost: float | None = None, cancel_token: CancellationToken | None = None) -> None:
        self.left = max_cost
        self.token = CancellationToken() if cancel_token is None else cancel_token

    def evaluate(
        self,
        evaluator: Evaluator,
        samples: Sequence[ACESample],
        skillbook: Skillbook | None,
        *,
        name: str,
        repeats: int = 1,
        on_answer: Callable[[JudgedAnswer], None] | None = None,
    ) -> Evaluation:
        """Return a complete evaluation. The arguments are those of `Evaluator.evaluate`.

        Raises:
            UnfinishedEvaluationError: It was stopped before all samples were answered.
        """
        if self.left is not None and self.left <= 0:
            self.token.cancel("max_cost")  # answers from the file are still free
        evaluation = evaluator.evaluate(
            samples,
            skillbook,
            name=name,
            repeats=repeats,
            max_cost=None if self.token.is_cancelled else self.left,
            cancel_token=self.token,
            on_answer=on_answer,
        )
        if self.left is not None:
            self.left -= evaluation.paid
        evaluation.check_complete()
        return evaluation
