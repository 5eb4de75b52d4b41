"""Which trace taught which skill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ace.skill import InsightSource, Skill


class SourceSummary(NamedTuple):
    """How many skills each origin taught."""

    skills_with_source: int
    skills_without_source: int
    by_trace: dict[str, int]
    """Number of skills by trace id, the most first."""
    by_epoch: dict[int, int]
    """Number of skills by epoch, in order."""
    by_integration: dict[str, int]
    """Number of skills by integration, the most first."""


def source_map(skills: Iterable[Skill]) -> dict[str, list[InsightSource]]:
    """Return the sources of each skill that has any, by skill id."""
    return {skill.id: list(skill.sources) for skill in skills if skill.sources}


def source_summary(skills: Iterable[Skill]) -> SourceSummary:
    """Return how many skills each trace, epoch and integration taught. A skill counts once for each."""
    traces: Counter[str] = Counter()
    epochs: Counter[int] = Counter()
    integrations: Counter[str] = Counter()
    with_source = without_source = 0
    for skill in skills:
        if skill.sources:
            with_source += 1
        else:
            without_source += 1
        traces.update({source.trace_id for source in skill.sources})
        epochs.update({source.epoch for source in skill.sources})
        integrations.update({source.integration for source in skill.sources})
    return SourceSummary(
        with_source,
        without_source,
        _most_first(traces),
        dict(sorted(epochs.items())),
        _most_first(integrations),
    )


def source_filter(
    skills: Iterable[Skill],
    *,
    trace_id: str | None = None,
    sample_question: str | None = None,
    epoch: int | None = None,
    integration: str | None = None,
) -> list[Skill]:
    """Return the skills of which one source fits everything that is given.

    Args:
        skills: The skills to look through.
        trace_id: The whole trace id.
        sample_question: A part of the question, in any case.
        epoch: The epoch, from 1.
        integration: The name of the integration.
    """

    def fits(source: InsightSource) -> bool:
        return (
            (trace_id is None or source.trace_id == trace_id)
            and (sample_question is None or sample_question.lower() in source.sample_question.lower())
            and (epoch is None or source.epoch == epoch)
            and (integration is None or source.integration == integration)
        )

    return [skill for skill in skills if any(map(fits, skill.sources))]


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
