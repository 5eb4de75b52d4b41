"""Turns one trace into a run: its task, its answer, and how it ended."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ace.logs.building import text_of, time_of
from ace.logs.formats.spans.assessments import outcome_of
from ace.logs.formats.spans.span import Trace
from ace.logs.formats.spans.story import Story
from ace.logs.formats.spans.tree import SpanTree
from ace.logs.formats.spans.values import parsed
from ace.logs.run import Run, Step, Tokens
from ace.skill import extract_cited_skill_ids

__all__ = ["run_of"]


def run_of(trace: Trace) -> Run | None:
    """Return the run that a trace records; None if it records nothing but the work of evaluators.

    Args:
        trace: The spans, in the order of the export.
    """
    tree = SpanTree(trace.spans)
    if not tree.spans:
        return None
    steps = Story(tree).steps
    place, error = tree.failure()
    judged = [*trace.assessments, *(found for span in trace.spans for found in span.assessments)]
    assessments = [found for found in judged if not found.is_truth]
    outcome = outcome_of(assessments)
    said = itertools.chain.from_iterable(found.lines() for found in assessments)
    cut_values = sum(span.cut_values for span in trace.spans)
    return Run(
        id=trace.id,
        task=_task(tree, steps),
        steps=tuple(steps),
        answer="" if error else _answer(tree, steps),
        success=False if error else outcome.success,
        score=outcome.score,
        reason="\n".join([*([_failure(place, error)] if error else []), *said]),
        outcome_from="status" if error else outcome.source,
        truth=trace.truth or next((text_of(found.value) for found in judged if found.is_truth), None),
        model=next((span.model for span in tree.spans if span.model), ""),
        tokens=Tokens(input=tree.total("input_tokens"), output=tree.total("output_tokens")),
        cost=tree.total("cost"),
        started=time_of(min((span.start for span in tree.spans if span.start), default=0)),
        ended=time_of(max(span.end for span in tree.spans)),
        skill_ids=tuple(extract_cited_skill_ids("\n".join(step.content for step in steps if step.speaker == "agent"))),
        rest={
            **trace.rest,
            **({"failed_at": place} if error else {}),
            **({"cut_values": cut_values} if cut_values else {}),
        },
    )


def _failure(place: str, error: str) -> str:
    return f"The run failed in {place}: {error}" + ("" if error.endswith((".", "!", "?")) else ".")


def _said(steps: Iterable[Step], speaker: str) -> list[str]:
    return [step.content for step in steps if step.kind == "message" and step.speaker == speaker]


def _task(tree: SpanTree, steps: Sequence[Step]) -> str:
    first = tree.top[0] if tree.top else None
    asked = _said(first.inputs, "person") if first else []
    whole = first.question if first and first.kind not in ("tool", "retriever") and not asked else ""
    said = _said(steps, "person")
    is_text = parsed(whole) == whole
    return next(filter(None, [*asked, whole if is_text else "", *said, whole]), "")


def _answer(tree: SpanTree, steps: Sequence[Step]) -> str:
    last = tree.top[-1] if tree.top else None
    said = _said(last.outputs, "agent") if last else []
    whole = last.answer if last and last.kind not in ("tool", "retriever") else ""
    spoken = _said(steps, "agent")
    return next(filter(None, [*said[-1:], whole if not (last and last.outputs) else "", *spoken[-1:]]), "")
