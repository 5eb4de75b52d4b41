"""The effect of each skill: how often it is shown and cited, and the accuracy with and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_arguments
from ace.evaluation.comparison import sample_changes
from ace.evaluation.evaluation import Evaluation
from ace.evaluation.evaluator import Budget
from ace.evaluation.statistics import Interval, paired_interval, sign_flip_test
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.evaluation.evaluation import JudgedAnswer
    from ace.evaluation.evaluator import Evaluator
    from ace.pipeline import CancellationToken

__all__ = ["LeftOut", "SkillEffect", "leave_one_out", "skill_effects"]


@dataclass(frozen=True, slots=True)
class SkillEffect:
    """The use of one skill in an evaluation."""

    skill_id: str
    """The skill."""
    content: str
    """Its text."""
    shown: int
    """The number of answers for which the agent saw it."""
    cited: int
    """The number of these answers that cite it."""
    correct_when_cited: float | None
    """The accuracy of the answers that cite it; None without such answers."""
    correct_when_not: float | None
    """The accuracy of the answers that do not; None without such answers."""
    without_skills: float | None
    """The accuracy without any skill on the samples whose answers cite it; None if it is not known."""

    @property
    def is_never_cited(self) -> bool:
        """Whether it was shown, but no answer cites it."""
        return self.shown > 0 and self.cited == 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The effect of one skill, measured by omitting it."""

    skill_id: str
    """The skill."""
    content: str
    """Its text."""
    effect: Interval
    """Accuracy of the whole book minus accuracy without this skill; above 0 it helps."""
    p_value: float
    """The probability of an effect this large by chance (sign flips)."""


@checked_arguments()
def skill_effects(
    learned: Evaluation, skillbook: Skillbook, baseline: Evaluation | None = None
) -> tuple[SkillEffect, ...]:
    """Return how each active skill was used, the most cited first.

    If answers that cite a skill are better, that does not prove that the skill improved them: see `leave_one_out`.

    Args:
        learned: An evaluation with this book.
        skillbook: The book.
        baseline: The same samples without skills.
    """
    effects = []
    for skill in skillbook.skills():
        citing = [answer for answer in learned.answers if skill.id in answer.cited]
        others = [answer for answer in learned.answers if skill.id not in answer.cited]
        helped = {answer.sample_id for answer in citing}
        before = [] if baseline is None else [answer for answer in baseline.answers if answer.sample_id in helped]
        effects.append(
            SkillEffect(
                skill.id,
                skill.content,
                sum(skill.id in answer.shown for answer in learned.answers),
                len(citing),
                _accuracy(citing),
                _accuracy(others),
                _accuracy(before),
            )
        )
    return tuple(sorted(effects, key=lambda effect: (-effect.cited, effect.skill_id)))


@checked_arguments()
def leave_one_out(
    evaluator: Evaluator,
    samples: Sequence[ACESample],
    skillbook: Skillbook,
    *,
    skill_ids: Iterable[str] | None = None,
    whole: Evaluation | None = None,
    repeats: int = 1,
    seed: int = 0,
    max_cost: float | None = None,
    cancel_token: CancellationToken | None = None,
    on_answer: Callable[[JudgedAnswer], None] | None = None,
) -> tuple[LeftOut, ...]:
    """Measure the effect of each skill: answer all samples without it, and compare with the whole book.

    All samples are answered once more for each skill.

    Args:
        evaluator: Answers and judges. With an `answers_path`, answered questions are not asked again.
        skillbook: The book; it is only read.
        skill_ids: The skills to omit, one at a time; all active ones by default.
        whole: The answers with the whole book, if they are known.
        repeats: How often each sample is answered.
        seed: For intervals and tests.
        max_cost: US dollars. Once the answers have cost this much, no further sample starts.
        cancel_token: Stops the evaluation.
        on_answer: Called with each answer.

    Raises:
        ValueError: A skill is unknown, or `whole` has other samples.
        UnfinishedEvaluationError: It was stopped before all samples were answered.
    """
    chosen = [skill.id for skill in skillbook.skills()] if skill_ids is None else list(skill_ids)
    known = {skill.id: skill.content for skill in skillbook.skills()}
    if unknown := [skill_id for skill_id in chosen if skill_id not in known]:
        raise ValueError(f"no active skill has the id {unknown[0]!r}, so it cannot be omitted")
    budget = Budget(max_cost, cancel_token)
    if whole is None:
        whole = budget.evaluate(evaluator, samples, skillbook, name="all skills", repeats=repeats, on_answer=on_answer)
    found = []
    for skill_id in chosen:
        rest = Skillbook.from_dict(skillbook.to_dict())
        rest.update_skill(skill_id, pinned=False)  # a pinned skill cannot be removed
        rest.remove_skill(skill_id)
        without = budget.evaluate(
            evaluator, samples, rest, name=f"without {skill_id}", repeats=repeats, on_answer=on_answer
        )
        changes = sample_changes(without, whole)
        before = [change.baseline_correct for change in changes]
        after = [change.learned_correct for change in changes]
        effect = paired_interval(before, after, seed=seed)
        moved = [new - old for old, new in zip(before, after, strict=True)]
        found.append(LeftOut(skill_id, known[skill_id], effect, sign_flip_test(moved, seed=seed)))
    return tuple(found)


def _accuracy(answers: Sequence[JudgedAnswer]) -> float | None:
    return fmean(answer.correct for answer in answers) if answers else None
