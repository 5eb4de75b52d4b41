"""Finds the judgements of a person in a trace, before a small model reflects, and for `ace inspect --judgements`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import Field

from ace._internal.arguments import checked_class, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import redactor_for
from ace.cases import Reply, messages_of, redacted_messages, replies_in
from ace.outputs import Judgement, JudgementsOutput, LenientOutput, Raw, Text
from ace.protocols.llm import AnyLLMClient
from ace.roles.prompts import (
    JUDGEMENTS_PROMPT,
    SMALL_MODEL_JUDGEMENT_PROMPT,
    SMALL_MODEL_RIGHT_ANSWER_PROMPT,
    Fence,
    PromptTemplate,
)
from ace.roles.rendering import cut_middle
from ace.roles.role_answers import checked_client, usable_answer

__all__ = ["JudgementFinder", "SmallModelJudgementFinder"]

_MOST_BYTES: Final = 90_000
"""The maximum size of the messages in the prompt."""
_MOST_BYTES_OF_A_TEXT: Final = 400
"""Of a task, an answer or a reply that a small model sees: the middle of a longer one is cut."""
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_CORRECTS: Final = "corrects the answer"


@checked_class
class JudgementFinder:
    """Asks a model which messages of a trace say that an answer of the agent was wrong.

    Learning does not need it: `Reflector` names the judgements in the answer that it gives anyway.

    Args:
        llm: The client of the model.
        max_retries: How often the model is asked again if an answer is not usable.

    Example:
        >>> from ace.providers import LiteLLMClient
        >>> JudgementFinder(LiteLLMClient("gpt-4o-mini")).find_judgements({"question": "2+2?", "answer": "4"})
        []
    """

    def __init__(self, llm: AnyLLMClient, *, max_retries: int = 3) -> None:
        self.llm = checked_client(llm)
        self.max_retries = whole_number("max_retries", max_retries, least=0)
        self._template = PromptTemplate(
            JUDGEMENTS_PROMPT, role="JudgementFinder", known=("messages",), needed=("messages",)
        )

    def find_judgements(self, trace: Mapping[str, Any]) -> list[Judgement]:
        """Return the judgements that the model names; `ace.cases.checked_judgements` checks them.

        Without a message of a person after an answer, the model is not asked.

        Args:
            trace: The trace, as `read_trace` returns it.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return finished(self._found(BLOCKING, trace))

    async def afind_judgements(self, trace: Mapping[str, Any]) -> list[Judgement]:
        """Return the judgements that the model names, without blocking the event loop.

        Args:
            trace: The trace, as `read_trace` returns it.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        return await self._found(ON_LOOP, trace)

    async def _found(self, calling: Calling, trace: Mapping[str, Any]) -> list[Judgement]:
        if not replies_in(trace):
            return []
        prompt = await calling.function(lambda: self._prompt(trace))
        answer = await usable_answer(
            calling, self.llm, prompt, JudgementsOutput, _no_problem, role="Judgements", max_retries=self.max_retries
        )
        return answer.judgements

    def _prompt(self, trace: Mapping[str, Any]) -> str:
        messages = messages_of(redacted_messages(trace, redactor_for(self.llm)))
        shown = "\n\n".join(f"[{message.place}] {message.speaker}\n{message.text}" for message in messages)
        text, _ = cut_middle(shown, _MOST_BYTES)
        return self._template.fill({"messages": Fence([text]).around(text)})


class _Meaning(LenientOutput):
    """What a reply does."""

    # With several kinds to choose from, such a model does not call every reply a correction.
    reply: Literal["accepts the answer", "gives what was asked for", "asks for more", "corrects the answer"]
    raw: Raw = Field(default_factory=dict)


class _RightAnswer(LenientOutput):
    """The right answer in a reply or the answer after it."""

    right: Text = Field(default="", json_schema_extra={"maxLength": 200})
    raw: Raw = Field(default_factory=dict)


_Short = TypeVar("_Short", _Meaning, _RightAnswer)


@checked_class
class SmallModelJudgementFinder(JudgementFinder):
    """Asks a small model, in a short question about each reply of a person, whether it corrects the answer.

    For each reply that does, a second question asks for the right answer. What was wrong is the whole answer. Such a
    model also takes choices and wishes for corrections, so a judgement only counts if the right answer was not in the
    first answer, and is in the next one of the agent or, without a next one, is a part of the reply. A reply to an
    answer that contains a question is not asked about, because it may answer that.

    Args:
        llm: The client of the model.
        max_retries: How often the model is asked again if an answer is not usable.
    """

    async def _found(self, calling: Calling, trace: Mapping[str, Any]) -> list[Judgement]:
        shown = await calling.function(lambda: redacted_messages(trace, redactor_for(self.llm)))
        found: list[Judgement] = []
        for reply in replies_in(shown):
            if any(mark in reply.answer for mark in _QUESTION_MARKS):
                continue
            texts = _shortened(reply)
            parts = {name: texts[name] for name in ("task", "answer", "reply")}
            meaning = await self._asked(calling, SMALL_MODEL_JUDGEMENT_PROMPT, parts, _Meaning)
            if meaning.reply != _CORRECTS:
                continue
            exchange = {"exchange": "\n".join(f"{name.capitalize()}: {text}" for name, text in texts.items() if text)}
            right = (await self._asked(calling, SMALL_MODEL_RIGHT_ANSWER_PROMPT, exchange, _RightAnswer)).right.strip()
            if _is_supported(right, reply):
                found.append(Judgement(message=reply.place, quote=reply.text, wrong=reply.answer, right=right))
        return found

    async def _asked(
        self, calling: Calling, prompt_template: str, parts: Mapping[str, str], answer: type[_Short]
    ) -> _Short:
        template = PromptTemplate(prompt_template, role="JudgementFinder", known=tuple(parts), needed=tuple(parts))
        prompt = template.fill(parts)
        return await usable_answer(
            calling, self.llm, prompt, answer, _no_problem, role="Judgements", max_retries=self.max_retries
        )


def _is_supported(right: str, reply: Reply) -> bool:
    """Return whether the exchange shows that a text is the right answer, which the first answer did not give."""
    if not right or right in reply.answer:
        return False
    return right in reply.next_answer if reply.next_answer else right in reply.text and right != reply.text.strip()


def _no_problem(answer: object) -> None:
    """Take every answer that validates."""


def _shortened(reply: Reply) -> dict[str, str]:
    """Return the texts of an exchange, each on one line, so that no part of one can look like another line."""
    texts = {"task": reply.question, "answer": reply.answer, "reply": reply.text, "next answer": reply.next_answer}
    cut = {name: cut_middle(" ".join(text.split()), _MOST_BYTES_OF_A_TEXT)[0] for name, text in texts.items()}
    return {name: " ".join(text.split()) for name, text in cut.items()}
