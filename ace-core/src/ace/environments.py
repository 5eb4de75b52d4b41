"""The samples of a live run, and the environments that score the answers."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from json import loads
from typing import TYPE_CHECKING, Any, Final, Literal

from ace._internal.arguments import checked_arguments, checked_class, instance_of, one_of, whole_number
from ace.skill import CaseCheck

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from ace.outputs import AgentOutput

__all__ = [
    "AgreementCheck",
    "EnvironmentResult",
    "HeuristicCheck",
    "HeuristicEnvironment",
    "Match",
    "Sample",
    "SimpleEnvironment",
    "TaskEnvironment",
    "agrees",
    "cites_skill",
    "json",
    "max_chars",
    "not_empty",
]

Match = Literal["contains", "exact", "numeric", "regex", "strict"]
"""How `SimpleEnvironment` compares an answer with the ground truth."""


@checked_class
@dataclass
class Sample:
    """An input to a live run.

    Example:
        >>> Sample("What is the capital of France?", ground_truth="Paris").context
        ''
    """

    question: str
    """The question or task."""
    context: str = ""
    """Additional text for the answer."""
    ground_truth: str | None = None
    """The correct answer, if it is known."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Additional data of the caller."""
    id: str | None = None
    """The caller's name for the sample."""


@checked_class
@dataclass
class EnvironmentResult:
    """The judgement of an answer."""

    feedback: str
    """Feedback for the reflector."""
    ground_truth: str | None = None
    """The correct answer, if it is known."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers by name, such as `correct` with 1.0; empty if nothing could be judged."""
    verified: bool = True
    """False if the answer was not judged, or only its form was. By default, nothing but tags is then learned from it;
    see `learn_without_truth` of `ace.runners.LearningSettings`. A result without metrics and ground truth counts as not
    verified too."""


class TaskEnvironment(ABC):
    """Evaluates the answers to a task. Subclasses implement `evaluate`, which may be `async def`.

    An environment that compares several answers to one question sets the attribute `further_answers`. Its `evaluate`
    then receives the other answers as the keyword argument `further_answers`, a sequence of `AgentOutput`. This
    argument needs a default value, because proofs of skills evaluate a single answer.
    """

    further_answers: int = 0
    """The number of additional answers to request for each question; each costs a model call."""

    @abstractmethod
    def evaluate(
        self, *, sample: Sample, agent_output: AgentOutput
    ) -> EnvironmentResult | Awaitable[EnvironmentResult]:
        """Judge one answer.

        Args:
            sample: The input.
            agent_output: The answer.
        """

    def check_of(self, sample: Sample) -> CaseCheck:
        """Return a check for later answers to a sample, for the case that is made from it.

        This environment itself, by the name of its class, unless a subclass knows a check that code can carry out.

        Args:
            sample: The input.
        """
        return CaseCheck("environment", type(self).__name__)


_DEFAULT_TOLERANCE: Final = 1e-9


class SimpleEnvironment(TaskEnvironment):
    """Compares the answer with the ground truth of the sample.

    The metric `correct` is 1.0 or 0.0. A sample without a ground truth gets no metric, and its answer
    is not verified.

    Args:
        match: How to compare. `contains`: the ground truth occurs in the answer, in any case of its
            letters. `exact`: both are equal but for case and white space. `numeric`: the last
            number of the answer equals the ground truth. `regex`: the ground truth is a pattern that
            is found in the answer. `strict`: the answer holds the ground truth as a whole, never as
            a part of a longer word or code; a number by its value, and no other number than those of
            the question; and no other alternative of the question ("pier A or pier C?"). The feedback
            says what is missing.
        tolerance: For `numeric`: the largest difference that counts as equal, as a share of the
            ground truth; one of 0 has to be met exactly.

    Raises:
        ValueError: `match` is unknown, or `tolerance` is negative.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer = AgentOutput(reasoning="", final_answer="It is paris.")
        >>> SimpleEnvironment().evaluate(Sample("Capital of France?", ground_truth="Paris"), answer).metrics
        {'correct': 1.0}
    """

    @checked_arguments()
    def __init__(self, match: Match = "contains", *, tolerance: float = _DEFAULT_TOLERANCE) -> None:
        one_of("match", match, (*_DESCRIPTIONS, "strict"))
        if tolerance < 0:
            raise ValueError(f"tolerance must not be negative, got {tolerance!r}")
        self.match = match
        self.tolerance = tolerance
        self._matchers: Mapping[str, Callable[[str, str], bool]] = {
            "contains": _contains,
            "exact": _equals,
            "numeric": self._same_number,
            "regex": _found,
        }

    def check_of(self, sample: Sample) -> CaseCheck:
        """Return the check of a case that comes closest to this comparison, by the ground truth of the sample.

        Args:
            sample: The input; only its `ground_truth` is read.

        Example:
            >>> SimpleEnvironment("strict").check_of(Sample("6*7?", ground_truth="42"))
            CaseCheck(kind='numeric', value='42')
        """
        from ace.cases import check_for  # only programs that learn need it

        text = " ".join(str(sample.ground_truth or "").split())
        if not text:
            return super().check_of(sample)
        if self.match == "strict":
            return check_for(text)
        if self.match == "numeric":
            by_value = self.tolerance <= _DEFAULT_TOLERANCE and check_for(text).kind == "numeric"
            return CaseCheck("numeric", text) if by_value else super().check_of(sample)
        return CaseCheck(self.match, str(sample.ground_truth) if self.match == "regex" else text)

    def evaluate(self, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        """Compare the final answer with the ground truth.

        Args:
            sample: The input; only its `ground_truth` is read, and its question by `strict`.
            agent_output: The answer; only its `final_answer` is read.

        Raises:
            ValueError: The ground truth is not a number (`numeric`) or not a regular expression (`regex`).
        """
        expected = sample.ground_truth
        if expected is None or not str(expected).strip():
            said = "This sample has no ground truth, so the answer was not judged."
            return EnvironmentResult(said, verified=False)
        expected = str(expected)
        if self.match == "strict":
            return _judged_strictly(sample.question, expected, agent_output.final_answer)
        correct = self._matchers[self.match](expected, agent_output.final_answer)
        feedback = _verdict(self.match, correct, expected)
        return EnvironmentResult(feedback, expected, {"correct": 1.0 if correct else 0.0})

    def _same_number(self, expected: str, answer: str) -> bool:
        wanted = _last_number(expected)
        if wanted is None:
            raise ValueError(f"match='numeric' needs a number as ground truth, got {expected!r}")
        found = _last_number(answer)
        if found is None or not math.isfinite(wanted):
            return found == wanted
        return abs(found - wanted) <= self.tolerance * abs(wanted)


@checked_class
@dataclass(frozen=True)
class HeuristicCheck:
    """A check that needs no ground truth, for `HeuristicEnvironment`.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> signed = HeuristicCheck("signed", lambda _, output: "" if "Ann" in output.final_answer else "is not signed")
        >>> signed.problem_with(Sample("Write to them."), AgentOutput(reasoning="", final_answer="Hello."))
        'is not signed'
    """

    name: str
    """The name of the metric."""
    problem_with: Callable[[Sample, AgentOutput], str]
    """Return what is wrong with an answer, as the end of a sentence that begins with "The answer"; empty if nothing."""


def not_empty() -> HeuristicCheck:
    """Check that the answer is not empty."""
    return HeuristicCheck("not_empty", lambda _, output: "" if output.final_answer.strip() else "is empty")


@checked_arguments()
def max_chars(limit: int) -> HeuristicCheck:
    """Check that the answer is not too long.

    Args:
        limit: The maximum number of characters.

    Raises:
        ValueError: `limit` is below 1.
    """
    whole_number("limit", limit, of="characters")

    def problem_with(_: Sample, output: AgentOutput) -> str:
        length = len(output.final_answer)
        return f"has {length} characters, more than {limit}" if length > limit else ""

    return HeuristicCheck("max_chars", problem_with)


def json(schema: object = None) -> HeuristicCheck:
    """Check that the answer is JSON of a certain shape, with nothing around it.

    Args:
        schema: A JSON Schema as a dict; or a pydantic model or any other type that pydantic validates, such as
            `dict[str, int]`. None accepts any JSON.

    Raises:
        ValueError: The JSON Schema is not valid.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer = AgentOutput(reasoning="", final_answer='{"total": "many"}')
        >>> HeuristicEnvironment([json(dict[str, int])]).evaluate(Sample("Total?"), answer).metrics
        {'json': 0.0, 'confidence': 0.0}
        >>> schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
        >>> HeuristicEnvironment([json(schema)]).evaluate(Sample("Total?"), answer).feedback.partition(". ")[2]
        "The answer is not the expected JSON: total: 'many' is not of type 'integer'."
    """
    if isinstance(schema, Mapping):
        return HeuristicCheck("json", partial(_problem_with_json, _validator(schema)))
    from pydantic import JsonValue, TypeAdapter, ValidationError  # slow to import

    adapter: TypeAdapter[object] = TypeAdapter(JsonValue if schema is None else schema)

    def problem_with(_: Sample, output: AgentOutput) -> str:
        try:
            adapter.validate_json(output.final_answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            return f"is not the expected JSON: {place + ': ' if place else ''}{first['msg']}"
        return ""

    return HeuristicCheck("json", problem_with)


def _validator(schema: Mapping[str, object]) -> Validator:
    """Return a validator that never fetches a schema from the network.

    Raises:
        ValueError: The schema is not valid; the message says where.
    """
    from jsonschema.exceptions import SchemaError  # slow to import
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path))
        raise ValueError(f"the JSON schema is not valid{f' at {place}' if place else ''}: {error.message}") from error
    validator: Validator = kind(schema, registry=Registry())
    return validator


def _problem_with_json(validator: Validator, _: Sample, output: AgentOutput) -> str:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    def refuse(constant: str) -> object:
        raise ValueError(f"JSON has no {constant}")

    try:
        value = loads(output.final_answer, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        return f"is not the expected JSON: it is not JSON: {error}"
    try:
        found = best_match(validator.iter_errors(value))
    except RecursionError:
        return "is not the expected JSON: it is nested too deeply"
    except Unresolvable as error:
        raise ValueError(f"the JSON schema refers to {error.ref!r}, which it does not contain") from error
    if found is None:
        return ""
    place = ".".join(map(str, found.absolute_path))
    return f"is not the expected JSON: {place + ': ' if place else ''}{found.message}"


def cites_skill() -> HeuristicCheck:
    """Check that the agent cited a skill."""
    return HeuristicCheck("cites_skill", lambda _, output: "" if output.skill_ids else "cites no skill")


@checked_class
@dataclass(frozen=True)
class AgreementCheck:
    """A check that compares several answers of the agent to the same question; `agrees` creates one."""

    name: str
    """The name of the metric."""
    answers: int
    """The number of answers to compare, including the evaluated one; at least 2."""
    same: Callable[[Sample, AgentOutput, AgentOutput], bool]
    """Returns whether another answer (the last argument) is the same as the evaluated one (the second argument)."""

    def problem_with(self, sample: Sample, output: AgentOutput, further: Sequence[AgentOutput]) -> str:
        """Return what is wrong with an answer, as `HeuristicCheck.problem_with` does.

        Args:
            sample: The input.
            output: The answer.
            further: The further answers to the same question. Those beyond the number of this check are ignored.

        Raises:
            ValueError: There are fewer answers than this check compares.
        """
        compared = further[: self.answers - 1]
        if len(compared) < self.answers - 1:
            raise ValueError(
                f"the check {self.name!r} compares {self.answers} answers, got {1 + len(compared)}; "
                "pass further_answers, or use AgentStep(answers=...) and EvaluateStep, which pass them"
            )
        others = sum(not self.same(sample, output, other) for other in compared)
        return f"differs from {others} of {len(compared)} further answers to the question" if others else ""


@checked_arguments()
def agrees(n: int, match: Literal["contains", "exact", "numeric", "strict"] = "exact") -> AgreementCheck:
    """Check that the agent repeats its answer when it is asked again.

    This costs `n - 1` additional agent calls per sample. At temperature 0, a model usually repeats its answer, right or
    wrong, so use this check with a higher temperature.

    Args:
        n: The number of answers to compare, including the evaluated one.
        match: How two answers are compared, as in `SimpleEnvironment`; the evaluated answer is used as the ground
            truth.

    Raises:
        ValueError: `n` is below 2, or `match` is unknown.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> first, second = (AgentOutput(reasoning="", final_answer=text) for text in ("Paris", "Lyon"))
        >>> environment = HeuristicEnvironment([agrees(2)])
        >>> environment.evaluate(Sample("Capital?"), first, further_answers=[second]).metrics
        {'agrees': 0.0, 'confidence': 0.0}
    """
    whole_number("n", n, least=2, of="answers")
    one_of("match", match, ("contains", "exact", "numeric", "strict"))
    matcher = SimpleEnvironment(match)

    def same(sample: Sample, output: AgentOutput, other: AgentOutput) -> bool:
        if match == "numeric" and _last_number(output.final_answer) is None:
            return _equals(output.final_answer, other.final_answer)
        if not output.final_answer.strip():
            return not other.final_answer.strip()
        judged = matcher.evaluate(Sample(sample.question, ground_truth=output.final_answer), other)
        return judged.metrics["correct"] == 1.0

    return AgreementCheck("agrees", n, same)


class HeuristicEnvironment(TaskEnvironment):
    """Judges the form of answers whose ground truth is not known.

    The metrics have 1.0 or 0.0 for each check, by its name, and `confidence`, the share of checks that passed; they
    never have `correct`. The feedback tells the reflector that the answer was not verified. By default, such answers
    only lead to tags of existing skills, because a skill that is learned from an unverified answer may repeat its
    error; see `learn_without_truth` of `ace.runners.LearningSettings`.

    Args:
        checks: The checks, at least one: `not_empty()`, `json(schema)`, `max_chars(limit)`, `cites_skill()`,
            `agrees(n)`, or your own, each with its own name.

    Raises:
        ValueError: `checks` is empty, two checks have the same name, or one is named `correct` or `confidence`.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> environment = HeuristicEnvironment([not_empty(), max_chars(5)])
        >>> result = environment.evaluate(Sample("Capital?"), AgentOutput(reasoning="", final_answer="It is Paris."))
        >>> result.metrics, result.verified
        ({'not_empty': 1.0, 'max_chars': 0.0, 'confidence': 0.5}, False)
    """

    @checked_arguments()
    def __init__(self, checks: Sequence[HeuristicCheck | AgreementCheck]) -> None:
        for check in checks:
            if not isinstance(check, AgreementCheck):
                instance_of("checks", check, HeuristicCheck, advice="create them with not_empty(), max_chars(500) ...")
        names = [check.name for check in checks]
        if not names:
            raise ValueError("checks must have at least one check, such as not_empty()")
        for name in names:
            if name in ("correct", "confidence"):
                raise ValueError(f"a check may not be named {name!r}: it would look like a verified result")
            if names.count(name) > 1:
                raise ValueError(f"the names of checks must differ, got {name!r} twice")
        self.checks = tuple(checks)
        self.further_answers = max(
            (check.answers - 1 for check in checks if isinstance(check, AgreementCheck)), default=0
        )

    def evaluate(
        self, sample: Sample, agent_output: AgentOutput, further_answers: Sequence[AgentOutput] = ()
    ) -> EnvironmentResult:
        """Check the form of an answer.

        Args:
            sample: The input.
            agent_output: The answer.
            further_answers: Further answers to the same question, for `agrees`.

        Raises:
            ValueError: A check compares more answers than are given.
        """
        problems = {
            check.name: check.problem_with(sample, agent_output, further_answers)
            if isinstance(check, AgreementCheck)
            else check.problem_with(sample, agent_output)
            for check in self.checks
        }
        metrics = {name: 0.0 if problem else 1.0 for name, problem in problems.items()}
        metrics["confidence"] = sum(metrics.values()) / len(metrics)
        found = [f"The answer {problem}." for problem in problems.values() if problem]
        said = " ".join(found) or "The checks found nothing wrong with its form."
        return EnvironmentResult(
            f"The answer was not verified, so it may be wrong. {said}", metrics=metrics, verified=False
        )


def _judged_strictly(question: str, expected: str, answer: str) -> EnvironmentResult:
    from ace.cases import check_for, why_not  # only programs that learn need it

    reason = why_not(check_for(expected), answer, question=question, expected=expected)
    if not reason:
        return EnvironmentResult(f"Correct: the answer has {expected!r}.", expected, {"correct": 1.0})
    wanted = "" if repr(expected) in reason else f"; it must have {expected!r}"
    return EnvironmentResult(f"Incorrect: the answer {reason}{wanted}.", expected, {"correct": 0.0})


_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "contains": ("contains", "does not contain"),
    "exact": ("equals", "does not equal"),
    "numeric": ("equals the number", "does not equal the number"),
    "regex": ("matches the pattern", "does not match the pattern"),
}


def says_only_the_truth(feedback: str, truth: str) -> bool:
    """Return whether feedback is the verdict of a `SimpleEnvironment`, which only quotes the ground truth.

    Args:
        truth: The ground truth.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer = AgentOutput(reasoning="", final_answer="It is Rome.")
        >>> result = SimpleEnvironment().evaluate(Sample("Capital of France?", ground_truth="Paris"), answer)
        >>> says_only_the_truth(result.feedback, "Paris"), says_only_the_truth("It has to be Paris.", "Paris")
        (True, False)
    """
    return feedback.startswith(("Correct: the answer ", "Incorrect: the answer ")) and repr(truth) in feedback


def _verdict(match: str, correct: bool, expected: str) -> str:
    relation = _DESCRIPTIONS[match][0 if correct else 1]
    return f"{'Correct' if correct else 'Incorrect'}: the answer {relation} {expected!r}."


_NUMBER = re.compile(
    r"""
    (?<![\w.]) [-+\u2212]?                             # not inside a word or a version number
    (?: (?: \d{1,3}(?:,\d{3})+(?!\d) | \d+ ) (?:\.\d*)?  # 1,234.5 or 1234.5
      | \.\d+ )                                        # .5
    (?: [eE][-+]?\d+ )?
    """,
    re.VERBOSE,
)


def _last_number(text: str) -> float | None:
    """Return the last number in a text; thousands may be separated by commas."""
    found: list[str] = _NUMBER.findall(text)
    return float(found[-1].replace(",", "").replace("\u2212", "-")) if found else None


def _contains(expected: str, answer: str) -> bool:
    return expected.strip().casefold() in answer.casefold()


def _equals(expected: str, answer: str) -> bool:
    return " ".join(expected.split()).casefold() == " ".join(answer.split()).casefold()


def _found(pattern: str, answer: str) -> bool:
    try:
        return re.search(pattern, answer) is not None
    except re.error as error:
        raise ValueError(f"match='regex' needs a pattern as ground truth, got {pattern!r}: {error}") from error
