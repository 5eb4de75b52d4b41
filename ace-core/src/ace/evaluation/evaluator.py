"""Has an agent answer samples with a skillbook, and an environment judge the answers. Nothing is learned."""

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

from ace.arguments import checked_arguments, checked_class
from ace.calls.model_calls import call_scope, current_call_scope
from ace.context import ACESample, ACEStepContext, SelectedSkills, SkillbookView
from ace.durable_file import append_line
from ace.evaluation.call_costs import EVALUATION_PREFIX, CallCosts
from ace.evaluation.evaluation import Evaluation, JudgedAnswer
from ace.pipeline import CancellationToken, Pipeline, SampleResult, StepProtocol
from ace.protocols.observers import observing
from ace.runners.run_limits import RunLimits
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
    """Its place among all attempts."""
    sample: ACESample
    """The sample."""
    name: str
    """The name of the sample."""
    repeat: int
    """Which of the attempts at the sample this is, from 1."""
    key: str
    """A hash of all that the answer depends on; empty where no file keeps the answers."""


def _attempts_at(samples: Sequence[ACESample], repeats: int, keys: _AnswerKeys | None = None) -> list[_Attempt]:
    """Return the attempts in the order of the samples; the repeats of a sample follow each other.

    Args:
        samples: The samples.
        repeats: How often each sample is answered.
        keys: Makes the keys.
    """
    attempts: list[_Attempt] = []
    for sample, name in zip(samples, sample_names(samples), strict=True):
        skills = "" if keys is None else keys.skills_for(sample)
        for repeat in range(1, repeats + 1):
            texts = (skills, name, str(repeat), sample.question, sample.context, sample.ground_truth)
            attempts.append(_Attempt(len(attempts), sample, name, repeat, "" if keys is None else text_hash(*texts)))
    return attempts


@final
class _AnswerKeys:
    """What answers depend on beside their samples.

    Args:
        book: The skills.
        retrieval: Chooses the skills that an agent sees; then an answer depends on these only.
        label: What else they depend on.
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
            chosen = ""  # AgentStep meets it again and reports it with the sample; failed answers are not used again
        return text_hash(self._label, chosen)


@checked_class
@final
class AnswerFile:
    """A file of JSON lines: a key and a judged answer each.

    The key identifies everything that the answer depends on. A failed answer is kept for the record, and asked for
    again.

    Args:
        path: The file; it is created with the first answer.

    Raises:
        ValueError: A line is not a judged answer, and was not cut off by the end of a process either; the text names
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

        Args:
            key: What it depends on.
            answer: The answer.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            append_line(self.path, json.dumps({"key": key, **answer.to_dict()}))
            self._known[key] = answer


def read_kept_lines(
    path: Path, first: str, read: Callable[[str, dict[str, Any]], T], *, what: str, instead: str
) -> list[T]:
    """Read the records of a file; without the file there are none.

    A line that was cut off when its process was killed is skipped. It may be anywhere, since another process may have
    continued the file.

    Args:
        path: The file.
        first: The name of the field that each record begins with.
        read: Makes a record from the value of that field and from the other fields.
        what: What a record is, for the error.
        instead: What to do about a file that holds something else.

    Raises:
        ValueError: A line is not such a record; the text names it.
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
    """Return a name for each sample: its own id, else a hash of its texts. A name that comes again gets a number.

    Args:
        samples: The samples.

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
    """Return a short hash of texts.

    Args:
        *texts: The texts; None differs from an empty one.
    """
    joined = "\x1f".join("\x00" if text is None else text for text in texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@checked_class
@final
class Evaluator:
    """Has an agent answer samples, and an environment judge the answers. The skillbook is only read.

    Args:
        agent: Who answers.
        environment: Who judges. Its metric `correct` counts.
        retrieval: Chooses the skills that the agent sees; by default it sees them all.
        workers: How many agents run at once.
        answers_path: A file that keeps every answer. What it has is not asked again, unless it failed.
        label: What the answers in that file depend on beside samples and skills, such as the name of the model, its
            settings and the environment. Answers of another label are asked for anew.

    Raises:
        ValueError: The file holds something else, or `workers` is below 1.
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
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers!r}")
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
        """Have every sample answered and judged. A sample that fails is a wrong answer.

        Args:
            samples: The samples.
            skillbook: The skills; without any by default.
            name: What is evaluated, for reports.
            repeats: How often each sample is answered.
            max_cost: US dollars. When the answers have cost so much, no further sample begins.
            cancel_token: Stops it; what is under way is finished.
            on_answer: Called with each answer when it is there; with those that were kept in the file, at once.

        Returns:
            The answers. If it was stopped, some are missing; the file has those that are there.

        Raises:
            ValueError: There is no sample, or an argument is invalid.
        """
        if not samples:
            raise ValueError("there are no samples to evaluate on")
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {repeats!r}")
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
        """Have the attempts answered, and each answer kept. Returns what stopped it."""
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
                    cost=spent.cost,
                    seconds=time.monotonic() - began.pop(attempt.place),
                )
                keep(attempt, answer)
            except BaseException as error:  # the pipeline would only log it, and go on paying
                problems.append(error)
                token.cancel()

        # Inside of a training run the calls count for that run, but are none of its recorded ones.
        scope = replace(current_call_scope(), store=None, answers=None, sample="")
        scope = scope if scope.run_id else replace(scope, run_id=prefix)
        limits = RunLimits(scope.run_id, token, max_cost, False)
        steps: list[StepProtocol[ACEStepContext]] = [
            AgentStep(self.agent, retrieval=self.retrieval, empty_counts=True),
            EvaluateStep(self.environment),
        ]
        with (
            call_scope(scope),
            observing(costs),
            observing(limits.observe),
            Pipeline[ACEStepContext](steps) as pipeline,
        ):
            # The token ends the input, not what is under way: an answer that was paid for is judged and kept.
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
        return replace(answered, error=f"the environment gave no metric 'correct': {trace.get('feedback', '')}")
    try:
        return replace(answered, correct=float(correct))
    except (TypeError, ValueError, OverflowError) as error:
        return replace(answered, error=f"the environment gave an impossible metric: {error}")


@final
class Budget:
    """Has samples answered as long as there is money left.

    Args:
        max_cost: US dollars for all evaluations together; None sets no limit.
        cancel_token: Stops them.
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
        """Return an evaluation that has all its answers. The arguments are those of `Evaluator.evaluate`.

        Raises:
            UnfinishedEvaluationError: It was stopped before all answers were there.
        """
        if self.left is not None and self.left <= 0:
            self.token.cancel("max_cost")  # what the answer file has is free all the same
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
