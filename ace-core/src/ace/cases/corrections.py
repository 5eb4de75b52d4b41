"""Finds where a person corrects an agent in the steps of a trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ace.cases.values import right_values
from ace.traces import TraceCorrection, TraceStep

__all__ = ["corrections_in"]

_NEW_TASK: Final = re.compile(r"^\W*(now|next|also|then|thanks|thank|great|perfect|good|nice|ok|okay)\b", re.IGNORECASE)


def corrections_in(steps: Sequence[TraceStep]) -> list[TraceCorrection]:
    """Return the corrections among the steps of a trace, in order. No model is asked.

    A correction is what a person says to an answer, where the next answer takes up what the person said and the first
    one lacked it. A follow-up question, thanks and a further task are none.

    Args:
        steps: The steps; words of a person have the name `user`, those of the agent `assistant`.

    Example:
        >>> from ace.traces import trace_step
        >>> said = ["High water?", "2:30 pm", "Our table has an h: 14h30.", "14h30"]
        >>> speakers = ("user", "assistant", "user", "assistant")
        >>> turns = [trace_step("message", who, text, "1") for who, text in zip(speakers, said)]
        >>> [(each["wrong"], each["right"]) for each in corrections_in(turns)]
        [('2:30 pm', '14h30')]
    """
    turns = _turns(steps)
    found: list[TraceCorrection] = []
    question = ""
    for place, turn in enumerate(turns):
        if turn["name"] != "user":
            continue
        before = turns[place - 1]["content"] if place and turns[place - 1]["name"] == "assistant" else ""
        after = turns[place + 1]["content"] if place + 1 < len(turns) else ""
        if question and before and after and _corrects(question, before, turn["content"], after):
            found.append(
                TraceCorrection(
                    question=question, wrong=before, correction=turn["content"], right=after, place=turn["place"]
                )
            )
        else:
            question = turn["content"]
    return found


def _turns(steps: Sequence[TraceStep]) -> list[TraceStep]:
    """Return what was said, in order; of several messages of one speaker in a row, the last one counts."""
    turns: list[TraceStep] = []
    for step in steps:
        if step["kind"] != "message" or step["name"] not in ("user", "assistant") or not step["content"].strip():
            continue
        if turns and turns[-1]["name"] == step["name"]:
            turns.pop()
        turns.append(step)
    return turns


def _corrects(question: str, wrong: str, said: str, right: str) -> bool:
    if said.rstrip().endswith("?") or _NEW_TASK.match(said):
        return False
    spoken = said.lower()
    return any(value.lower() in spoken for value in right_values(question, wrong, said, right))
