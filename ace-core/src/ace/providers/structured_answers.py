"""Ask a model for JSON, validate it, and ask again with the error shown."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ace.calls.calling import finished
from ace.calls.model_calls import current_answer_budget
from ace.protocols.errors import UnusableAnswerError
from ace.protocols.llm import LLMResponse, StructuredAnswer
from ace.providers.json_answers import broken_json, json_objects

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["AnswerProblem", "ask_until_valid", "read_answer", "valid_answer", "with_schema"]

_LONGEST_SHOWN_ANSWER = 4000
_MOST_SHOWN_ERRORS = 10


class AnswerProblem(ValueError):
    """An answer does not validate; the text tells a model what to do better."""


def ask_until_valid(
    ask: Callable[[list[dict[str, str]]], LLMResponse],
    prompt: str,
    response_model: type[StructuredAnswer],
    *,
    max_retries: int,
    system: str | None = None,
    shows_schema: bool = True,
) -> StructuredAnswer:
    """Ask until an answer validates.

    Every answer counts against the answer budget that is open around this call, so it may stop
    before `max_retries` is used up.

    Args:
        ask: Sends chat messages and returns the answer.
        prompt: The prompt, without the schema.
        response_model: The class that the answer must validate as.
        max_retries: How often to ask again.
        system: The text of a system message.
        shows_schema: False leaves the schema out of the prompt, for those who tell the model otherwise.

    Raises:
        UnusableAnswerError: No answer validates; it carries all of them.
    """

    async def asked(messages: list[dict[str, str]]) -> LLMResponse:
        return ask(messages)

    return finished(
        valid_answer(asked, prompt, response_model, max_retries=max_retries, system=system, shows_schema=shows_schema)
    )


async def valid_answer(
    ask: Callable[[list[dict[str, str]]], Awaitable[LLMResponse]],
    prompt: str,
    response_model: type[StructuredAnswer],
    *,
    max_retries: int,
    system: str | None = None,
    shows_schema: bool = True,
) -> StructuredAnswer:
    """Ask from asynchronous code until an answer validates; otherwise like `ask_until_valid`.

    Args:
        ask: Sends chat messages and returns the answer; it is awaited.
        prompt: The prompt, without the schema.
        response_model: The class that the answer must validate as.
        max_retries: How often to ask again.
        system: The text of a system message.
        shows_schema: False leaves the schema out of the prompt, for those who tell the model otherwise.

    Raises:
        UnusableAnswerError: No answer validates; it carries all of them.
    """
    budget = current_answer_budget()
    start = [{"role": "system", "content": system}] if system else []
    start.append({"role": "user", "content": with_schema(prompt, response_model) if shows_schema else prompt})
    messages = start
    answers: list[str] = []
    while True:
        response = await ask(messages)
        if budget is not None:
            budget.record(response.text)
        answers.append(response.text)
        try:
            return read_answer(response.text, response_model)
        except AnswerProblem as error:
            problem = str(error)
        if response.finish_reason == "length":
            problem += " (the answer was cut off at max_tokens: write less, or raise max_tokens)"
        if len(answers) > max_retries or (budget is not None and budget.left == 0):
            raise UnusableAnswerError(problem, raw_answers=answers)
        messages = [*start, *_correction(response.text, problem)]


def with_schema(prompt: str, response_model: type[BaseModel]) -> str:
    """Append to a prompt what the answer must look like.

    Args:
        prompt: The prompt.
        response_model: The class that the answer must validate as.
    """
    return (
        f"{prompt.rstrip()}\n\n"
        "Answer with one JSON object and nothing else: no code fence, no text around it. "
        f"It must validate against this JSON schema:\n{_schema_text(response_model)}\n"
    )


@lru_cache(maxsize=64)
def _schema_text(response_model: type[BaseModel]) -> str:
    return json.dumps(response_model.model_json_schema(), ensure_ascii=False)


def read_answer(answer: str, response_model: type[StructuredAnswer]) -> StructuredAnswer:
    """Validate the one JSON object of an answer.

    Of several objects, the one that validates is taken; if more than one does and they differ, none is.

    Args:
        answer: The text of a model.
        response_model: The class that the answer must validate as.

    Raises:
        AnswerProblem: There is no such object.

    Example:
        >>> from ace.outputs import SkillTag
        >>> read_answer('Sure: {"id": "a-00001", "tag": "Helpful"}', SkillTag)
        SkillTag(id='a-00001', tag='helpful')
    """
    if not answer.strip():
        raise AnswerProblem("the answer is empty; answer with one JSON object")
    valid: list[StructuredAnswer] = []
    problem = ""
    for found in json_objects(answer):
        try:
            value = _validated(found, response_model)
        except AnswerProblem as error:
            problem = problem or str(error)
        else:
            if value not in valid:
                valid.append(value)
    if len(valid) > 1:
        raise AnswerProblem(f"the answer has {len(valid)} different JSON objects; answer with one")
    if not valid:
        raise AnswerProblem(broken_json(answer) or problem or "there is no JSON object in the answer")
    return valid[0]


def _validated(found: dict[str, Any], response_model: type[StructuredAnswer]) -> StructuredAnswer:
    from pydantic import ValidationError

    # `raw` is ours: it keeps the answer as it came, whatever the model wrote under that name.
    data = {**found, "raw": found} if "raw" in response_model.model_fields else found
    try:
        return response_model.model_validate(data)
    except ValidationError as error:
        problem = _explained(error)
    raise AnswerProblem(problem)


def _explained(error: Any) -> str:
    lines = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in item["loc"]) or "the object"
        lines.append(f"{place}: {item['msg']}")
    shown = lines[:_MOST_SHOWN_ERRORS]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown)} more")
    return "; ".join(shown)


def _correction(answer: str, problem: str) -> list[dict[str, str]]:
    shown = answer
    if len(shown) > _LONGEST_SHOWN_ANSWER:
        half = _LONGEST_SHOWN_ANSWER // 2
        shown = f"{shown[:half]}\n[... {len(answer) - 2 * half} characters left out ...]\n{shown[-half:]}"
    return [
        # Some servers refuse an empty message.
        {"role": "assistant", "content": shown or "(empty)"},
        {
            "role": "user",
            "content": f"This answer cannot be used: {problem}\nAnswer again, with the mended JSON.",
        },
    ]
