"""What a report tells, whatever it looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from ace.evaluation.call_costs import Spent
from ace.evaluation.comparison import Comparison
from ace.evaluation.effects import LeftOut, SkillEffect
from ace.evaluation.statistics import Interval
from ace.evaluation.training_log import ValidationPoint

__all__ = ["EvaluationReport", "measure_rows", "number", "range_text", "writable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationReport:
    """A comparison, and what belongs to it."""

    title: str
    """The heading."""
    comparison: Comparison
    """With skills against without."""
    settings: Mapping[str, str | int | float | None] = field(default_factory=dict)
    """How it was done, such as the model and the seed, by names for people."""
    skills: Sequence[SkillEffect] = ()
    """The use of each skill; where there were several trainings, of the first one."""
    left_out: Sequence[LeftOut] = ()
    """The effect of each skill that was left out."""
    training: Sequence[ValidationPoint] = ()
    """The validations of the training that the skills come from; where there were several, of the first one."""
    runs: Mapping[str, float] = field(default_factory=dict)
    """The accuracy of each single training, by its name, where there were several."""

    @property
    def facts(self) -> Mapping[str, str]:
        """How it was done, what the training took, and how much failed: texts by names for people."""
        comparison = self.comparison
        failed = f"{len(comparison.baseline.failed)} without skills, {len(comparison.learned.failed)} with skills"
        facts = {name: str(value) for name, value in self.settings.items()}
        if self.training:
            facts["learning took"] = _spent_text(self.learning_costs)
            facts["validation took"] = _spent_text(self.validation_costs)
        return {**facts, "failed (counted as wrong)": failed}

    @property
    def learning_costs(self) -> Spent:
        """What learning took in the training, without its validations."""
        return reduce(Spent.plus, (point.learning for point in self.training), Spent())

    @property
    def validation_costs(self) -> Spent:
        """What the validations of the training took."""
        taken = (Spent(0, point.input_tokens, point.output_tokens, point.cost) for point in self.training)
        return reduce(Spent.plus, taken, Spent())

    @property
    def summary(self) -> str:
        """One sentence on what the skills changed."""
        accuracy, samples = self.comparison.accuracy, self.comparison.samples
        difference = accuracy.difference
        verdict = "no difference that chance would not explain" if accuracy.p_value >= 0.05 else "more than chance"
        return (
            f"Accuracy {accuracy.baseline.value:.1%} without skills, {accuracy.learned.value:.1%} with them: "
            f"{100 * difference.value:+.1f} points ({100 * difference.low:+.1f} to {100 * difference.high:+.1f}) on "
            f"{len(samples)} samples, p = {accuracy.p_value:.3g} ({accuracy.test}): {verdict}."
        )


def _spent_text(spent: Spent) -> str:
    calls = f"{spent.calls} calls, " if spent.calls else ""
    cost = "at an unknown price" if spent.cost is None else f"${spent.cost:.4f}"
    return f"{calls}{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out, {cost}"


def writable(text: str, longest: int) -> str:
    """Return a text that can be written as UTF-8, cut to a length.

    A model's JSON may hold half of a surrogate pair.

    Args:
        text: Any text.
        longest: The most characters.

    Example:
        >>> writable("a long story", 6)
        'a long...'
    """
    cut = text if len(text) <= longest else f"{text[:longest]}..."
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


def number(value: float) -> str:
    """Return a number for a person.

    Example:
        >>> number(0.5), number(1234.5), number(0.000123), number(0)
        ('0.500', '1,234', '0.000123', '0')
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10:
        return f"{value:,.0f}" if size >= 100 else f"{value:.1f}"
    return f"{value:.3f}" if size >= 0.01 else f"{value:.3g}"


def range_text(interval: Interval, *, signed: bool = False) -> str:
    """Return a value with its interval in brackets.

    Args:
        interval: The interval.
        signed: Whether a plus sign is written.

    Example:
        >>> range_text(Interval(0.5, 0.25, 0.75), signed=True)
        '+0.500 [+0.250, +0.750]'
    """

    def shown(value: float) -> str:
        return f"+{number(value)}" if signed and value > 0 else number(value)

    return f"{shown(interval.value)} [{shown(interval.low)}, {shown(interval.high)}]"


def measure_rows(comparison: Comparison) -> list[list[str]]:
    """Return the cells of the table of measures: name, baseline, learned, difference, p, test.

    Args:
        comparison: The comparison.
    """
    return [
        [
            measure.name,
            range_text(measure.baseline),
            range_text(measure.learned),
            range_text(measure.difference, signed=True),
            f"{measure.p_value:.3g}",
            measure.test,
        ]
        for measure in comparison.measures
    ]
