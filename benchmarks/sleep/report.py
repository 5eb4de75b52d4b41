"""The scores of each method, as a Markdown table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.sleep.acting import Acted, Agent, LiteralAgent, work
from benchmarks.sleep.arms import Arm, Learned, Lesson
from benchmarks.sleep.samples import Sample

__all__ = ["Scores", "as_json", "lessons_table", "results_table", "score"]


@dataclass
class Scores:
    """What one method did with one seed."""

    arm: str
    seed: int
    learned: Learned
    acted: dict[str, list[Acted]] = field(default_factory=dict)
    """What the agent did in each repository, in the order of the prompts."""
    rules: list[str] = field(default_factory=list)
    """The repositories whose rule is followed in every prompt from the beginning."""
    traps: list[str] = field(default_factory=list)
    """The repositories in which the agent is led into the trap, by all lessons or by one alone."""
    wrong_labels: list[Lesson] = field(default_factory=list)
    """Lessons that are called proven and, shown alone, make something worse than nothing does."""


def score(
    arm: Arm, seed: int, learned: Learned, shown: Mapping[str, str], samples: Sequence[Sample], agent: Agent, most: int
) -> Scores:
    """Have an agent work on the prompts of all repositories, with what it is shown in each.

    Args:
        arm: The method.
        seed: The seed of the machine.
        learned: What the method did there.
        shown: The instructions in each repository.
        samples: The repositories.
        agent: Chooses what to do.
        most: How many prompts of each kind are tried.
    """
    scores = Scores(arm.name, seed, learned)
    for sample in samples:
        prompts = [*sample.reworded[:most], *sample.other[:most]]
        acted = [work(sample, prompt, shown[sample.name], agent) for prompt in prompts]
        scores.acted[sample.name] = acted
        if not sample.is_trap and all(one.first_right and one.passes for one in acted):
            scores.rules.append(sample.name)
        lessons = [lesson for lesson in learned.lessons if lesson.repository == sample.name]
        alone = {lesson: _alone(sample, lesson.text) for lesson in lessons if sample.is_trap or lesson.proven}
        if any(one.trapped for found in (acted, *alone.values()) for one in found):
            scores.traps.append(sample.name)
        worse = [lesson for lesson, found in alone.items() if lesson.proven and _is_worse(found, _alone(sample, ""))]
        scores.wrong_labels += worse
    return scores


_KNOWN: dict[tuple[str, str], list[Acted]] = {}


def _alone(sample: Sample, text: str) -> list[Acted]:
    """Return what the literal agent does if it is shown one lesson only; the same every time, so it is done once."""
    if (sample.name, text) not in _KNOWN:
        _KNOWN[sample.name, text] = [work(sample, prompt, text, LiteralAgent()) for prompt in sample.prompts]
    return _KNOWN[sample.name, text]


def _is_worse(found: Sequence[Acted], before: Sequence[Acted]) -> bool:
    pairs = list(zip(found, before, strict=True))
    return any(
        (old.passes and not new.passes)
        or (old.first_right and not new.first_right)
        or (new.trapped and not old.trapped)
        for new, old in pairs
    )


def results_table(scores: Sequence[Scores], arms: Sequence[Arm], samples: Sequence[Sample]) -> str:
    """Return the scores of each method, of several seeds divided by commas where they differ."""
    rules = sum(not sample.is_trap for sample in samples)
    head = (
        "method",
        f"rules learned, of {rules}",
        f"traps learned, of {len(samples) - rules}",
        "first command right",
        "hidden tests pass",
        "commands per prompt",
        "lessons",
        'wrong "proven"',
        "other repositories changed",
        "calls",
        "nights",
        "minutes",
    )
    return _table(head, (_row(arm, [one for one in scores if one.arm == arm.name]) for arm in arms))


def _row(arm: Arm, scores: Sequence[Scores]) -> Sequence[str]:
    skipped = next((one.learned.skipped for one in scores if one.learned.skipped), "")
    if skipped:
        return (arm.title, f"skipped: {skipped}", *[""] * 10)
    acted = [[one for found in each_seed.acted.values() for one in found] for each_seed in scores]
    return (
        arm.title,
        _same(len(one.rules) for one in scores),
        _same(len(one.traps) for one in scores),
        f"{_same(sum(one.first_right for one in found) for found in acted)} of {len(acted[0])}",
        f"{_same(sum(one.passes for one in found) for found in acted)} of {len(acted[0])}",
        f"{fmean(len(one.did) for found in acted for one in found):.2f}",
        _same(len(one.learned.lessons) for one in scores),
        _same(len(one.wrong_labels) for one in scores),
        _same(len(one.learned.foreign) for one in scores),
        _same(one.learned.calls for one in scores),
        _same(one.learned.nights for one in scores),
        f"{fmean(one.learned.seconds for one in scores) / 60:.1f}",
    )


def _same(numbers: Iterator[int]) -> str:
    """Return the number of all seeds, or one for each if they differ."""
    found = [str(number) for number in numbers]
    return found[0] if len(set(found)) == 1 else ", ".join(found)


def lessons_table(scores: Sequence[Scores], arms: Sequence[Arm]) -> str:
    """Return what each method taught in the first seed: for `ace`, what was accepted."""
    titles = {arm.name: arm.title for arm in arms}
    rows = [
        (titles[one.arm], lesson.repository, lesson.text.replace("|", "\\|"), "proven" if lesson.proven else "")
        for one in scores
        if one.seed == scores[0].seed
        for lesson in one.learned.lessons
        if one.arm not in ("raw-memory", "rule")
    ]
    return _table(("method", "repository", "lesson", "label"), rows)


def as_json(scores: Sequence[Scores]) -> list[dict[str, Any]]:
    """Return all that was measured, with every lesson and all that the agent did."""
    return [
        {
            **asdict(one),
            "learned": {**asdict(one.learned), "foreign": sorted(one.learned.foreign)},
        }
        for one in scores
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
