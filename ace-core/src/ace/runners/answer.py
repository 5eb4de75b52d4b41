"""`Answer`: what `ACELiteLLM.ask` returns, a text that knows how it came about."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Self

from ace.protocols.llm import Usage
from ace.steps.answer_trace import answer_trace

if TYPE_CHECKING:
    from ace.outputs import AgentOutput

__all__ = ["Answer"]


class Answer(str):
    """The answer to one question: a text, with what feedback on it needs.

    Keep it to say later what the feedback is about: `learn_from_feedback("wrong", answer=answer)`. It can be pickled,
    so a service may keep it in its own store, by `id`.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer = Answer.of(AgentOutput(reasoning="Two and two.", final_answer="4"), "2+2?", "", Usage(calls=1))
        >>> answer == "4", answer.reasoning, answer.usage.calls
        (True, 'Two and two.', 1)
    """

    id: str
    """A unique name of the answer."""
    question: str
    """What was asked."""
    context: str
    """What the answer could draw on; may be empty."""
    reasoning: str
    """How the agent came to the answer."""
    skill_ids: tuple[str, ...]
    """The skills that the reasoning cites."""
    usage: Usage
    """What the model calls of this answer have used, repetitions included. Agents whose client does not tell what
    its calls use leave it at zero."""

    @classmethod
    def of(cls, output: AgentOutput, question: str, context: str, usage: Usage) -> Self:
        """Return the answer that an agent gave.

        Args:
            output: What the agent returned.
            question: What was asked.
            context: What the answer could draw on.
            usage: What the model calls have used.
        """
        answer = cls(output.final_answer)
        answer.id = uuid.uuid4().hex
        answer.question, answer.context = question, context
        answer.reasoning, answer.skill_ids = output.reasoning, tuple(output.skill_ids)
        answer.usage = usage
        return answer

    def trace(self, feedback: str, ground_truth: str | None) -> dict[str, Any]:
        """Return the trace of this answer that a reflector learns from.

        Args:
            feedback: What was good or bad about it.
            ground_truth: The right answer, where it is known.
        """
        from ace.outputs import AgentOutput

        output = AgentOutput(reasoning=self.reasoning, final_answer=str(self), skill_ids=list(self.skill_ids))
        return {**answer_trace(self.question, self.context, ground_truth, output), "feedback": feedback}
