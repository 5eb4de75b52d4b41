"""The cases of recorded runs as questions of an evaluation, and the environment that judges the answers to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, final

from ace._internal.arguments import checked_arguments, checked_class
from ace.cases import cases_of
from ace.environments import EnvironmentResult, Sample, TaskEnvironment
from ace.outputs import AgentOutput
from ace.proof import CaseProver
from ace.redaction import Redactor
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.protocols.llm import AnyLLMClient

__all__ = ["CaseEnvironment", "case_of", "case_questions", "memory_of"]

_CASE: Final = "case"
_LONGEST_RUN: Final = 4_000
"""In characters. Of a longer run without cases, raw memory keeps the beginning and the end."""


@checked_arguments()
def case_questions(trace: Mapping[str, Any], place: str) -> list[Sample]:
    """Return the cases of a standard trace as samples, whose answers a `CaseEnvironment` judges.

    A case that only the environment of its run can judge is omitted.

    Args:
        trace: The result of `read_trace`.
        place: Where the trace was found, which becomes part of the names of the samples.

    Example:
        >>> trace = {"question": "6*7?", "answer": "41", "ground_truth": "42"}
        >>> [(sample.question, sample.ground_truth) for sample in case_questions(trace, "runs.jsonl#1")]
        [('6*7?', '42')]
    """
    return [
        Sample(case.question, case.context, case.expected or None, {_CASE: case}, id=f"{place}:{case.id}")
        for case in cases_of(trace, trace_id=place)
        if case.check.kind != "environment"
    ]


@checked_arguments()
def case_of(sample: Sample) -> SkillCase | None:
    """Return the case that a sample of `case_questions` asks about; None for another sample."""
    found = sample.metadata.get(_CASE)
    return found if isinstance(found, SkillCase) else None


@checked_class
@final
class CaseEnvironment(TaskEnvironment):
    """Judges answers to the samples of `case_questions` with the checks of their cases.

    Args:
        judge: A client that answers the checks of kind `judge`; without one they are not judged.
        otherwise: Judges all other samples; without one they are not judged.

    Example:
        >>> [sample] = case_questions({"question": "6*7?", "answer": "41", "ground_truth": "42"}, "runs.jsonl#1")
        >>> CaseEnvironment().evaluate(sample, AgentOutput(reasoning="", final_answer="It is 42.")).metrics
        {'correct': 1.0}
    """

    def __init__(self, judge: AnyLLMClient | None = None, *, otherwise: TaskEnvironment | None = None) -> None:
        self.judge = judge
        self.otherwise = otherwise

    def check_of(self, sample: Sample) -> CaseCheck:
        """Return the check of the case, or that of the other environment."""
        case = case_of(sample)
        if case is not None:
            return case.check
        return super().check_of(sample) if self.otherwise is None else self.otherwise.check_of(sample)

    def evaluate(self, sample: Sample, agent_output: AgentOutput) -> Any:
        """Judge one answer.

        Args:
            sample: A sample of `case_questions`, or one for the other environment.
        """
        case = case_of(sample)
        if case is None:
            if self.otherwise is None:
                return EnvironmentResult("This sample has no case, so the answer was not judged.")
            return self.otherwise.evaluate(sample=sample, agent_output=agent_output)
        # The prover knows how each kind of check is judged; it asks an agent that has answered already.
        passed = CaseProver(_Answered(agent_output), judge=self.judge).outcome(case, ()).passed
        if passed is None:
            return EnvironmentResult("The answer could not be judged.", sample.ground_truth)
        verdict = "Correct" if passed else "Incorrect"
        return EnvironmentResult(f"{verdict}.", sample.ground_truth, {"correct": float(passed)})


@final
class _Answered:
    """An agent whose only answer is known."""

    def __init__(self, output: AgentOutput) -> None:
        self._output = output

    def generate(self, **kwargs: object) -> AgentOutput:
        return self._output


@checked_arguments()
def memory_of(traces: Iterable[Mapping[str, Any]], redactor: Redactor | None = None) -> Skillbook:
    """Return recorded runs as they are, as the entries of a skillbook: what an agent knows without learning.

    A run with cases has an entry for each of them: the task, the wrong answer, the correction and the right answer. Any
    other run has one with its task, its steps and its answer; a long one is shortened in the middle.

    Args:
        traces: Results of `read_trace`.
        redactor: Redacts the entries, since they are sent to a model; by default, secrets and all personal data.

    Example:
        >>> book = memory_of([{"question": "6*7?", "answer": "41", "ground_truth": "42"}])
        >>> print(book.skills()[0].content)
        Task: 6*7?
        Wrong answer: 41
        Right answer: 42
    """
    book = Skillbook()
    redact = (redactor or Redactor()).redact
    for trace in traces:
        cases = cases_of(trace)
        for text in map(_example, cases) if cases else [_run(trace)]:
            if text:
                book.add_skill("runs", _shortened(redact(text)))
    return book


def _example(case: SkillCase) -> str:
    return _lines(
        {
            "Task": case.question,
            "Wrong answer": case.wrong,
            "Correction": case.correction,
            "Right answer": case.expected,
        }
    )


def _run(trace: Mapping[str, Any]) -> str:
    return _lines(
        {
            "Task": trace.get("question"),
            "Steps": trace.get("reasoning"),
            "Answer": trace.get("answer"),
            "Feedback": trace.get("feedback"),
        }
    )


def _lines(parts: Mapping[str, object]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in parts.items() if text)


def _shortened(text: str) -> str:
    half = _LONGEST_RUN // 2
    return text if len(text) <= _LONGEST_RUN else f"{text[:half]}\n...\n{text[-half:]}"
