"""The trace of an answer that an agent of ours gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ace.outputs import AgentOutput

__all__ = ["answer_trace"]


def answer_trace(question: str, context: str, ground_truth: str | None, output: AgentOutput) -> dict[str, Any]:
    """Return what is known of an answer before anybody judges it.

    Args:
        question: The question or task.
        context: Whatever the answer could draw on.
        ground_truth: The right answer, where it is known.
        output: The answer.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer_trace("2+2?", "", "4", AgentOutput(reasoning="Add.", final_answer="4"))["answer"]
        '4'
    """
    return {
        "question": question,
        "context": context,
        "ground_truth": ground_truth,
        "reasoning": output.reasoning,
        "answer": output.final_answer,
        "skill_ids": list(output.skill_ids),
    }
