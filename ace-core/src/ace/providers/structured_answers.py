"""Ask a model for JSON, find the object in what it wrote, validate it, and ask again with the error shown."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ace.calls.calling import finished
from ace.calls.usable_answers import AnswerProblem, RejectedAnswer, until_usable
from ace.protocols.errors import encodable
from ace.protocols.llm import LLMResponse, StructuredAnswer

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "accepted_schema",
    "ask_until_valid",
    "broken_json",
    "json_objects",
    "read_answer",
    "valid_answer",
    "with_schema",
]

_LONGEST_SHOWN_ANSWER = 4000
_MOST_SHOWN_ERRORS = 10


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
    start = [{"role": "system", "content": system}] if system else []
    start.append({"role": "user", "content": with_schema(prompt, response_model) if shows_schema else prompt})

    async def asked(rejected: RejectedAnswer | None) -> LLMResponse:
        return await ask(start if rejected is None else [*start, *_correction(rejected)])

    def read(response: LLMResponse) -> StructuredAnswer:
        try:
            return read_answer(response.text, response_model)
        except AnswerProblem as error:
            if response.finish_reason != "length":
                raise
            advice = "the answer was cut off at max_tokens: write less, or raise max_tokens"
            raise AnswerProblem(f"{error} ({advice})") from error

    return await until_usable(asked, read, text_of=lambda response: response.text, max_retries=max_retries)


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


def _correction(rejected: RejectedAnswer) -> list[dict[str, str]]:
    answer, problem = rejected
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


_THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
# Control characters inside strings, such as a raw line break, are a common slip and harmless.
_DECODER = json.JSONDecoder(strict=False)
_MOST_STARTS = 200


def json_objects(answer: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of an answer, in order.

    Prose and code fences around an object are skipped, and so are the thoughts that some models write before their
    answer. An object inside another one is not yielded by itself.

    Args:
        answer: The text of a model.

    Example:
        >>> list(json_objects('Here you are: {"a": {"b": 1}} I hope it helps.'))
        [{'a': {'b': 1}}]
    """
    text = _THOUGHTS.sub("", answer, count=1)
    position = 0
    for _ in range(_MOST_STARTS):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            # RecursionError: nested too deeply to be an answer to any schema of ours.
            position += 1
            continue
        position = end
        yield _encodable(value)


def _encodable(value: Any) -> Any:
    """Replace the lone surrogates that a model can write as escapes, which could not be stored."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {encodable(key): _encodable(item) for key, item in value.items()}
    return value


def broken_json(answer: str) -> str | None:
    """Say where the first JSON object of an answer is broken; None if it is whole or there is none.

    Args:
        answer: The text of a model.

    Example:
        >>> broken_json('{"a": 1')
        "the JSON is broken: Expecting ',' delimiter: line 1 column 8 (char 7)"
    """
    text = _THOUGHTS.sub("", answer, count=1)
    start = text.find("{")
    if start < 0:
        return None
    try:
        _DECODER.raw_decode(text, start)
    except RecursionError:
        return "the JSON is nested too deeply"
    except ValueError as error:
        return f"the JSON is broken: {error}"
    return None


_LEFT_OUT = frozenset({"pattern", "format"})
"""Servers read some of these wrongly or not at all. The answer is validated afterwards anyway."""
_NAMES_OF_FIELDS = frozenset({"properties", "$defs"})


@lru_cache(maxsize=64)
def accepted_schema(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the setting `response_format` of a chat request.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> accepted_schema(SkillTag)["json_schema"]["name"]
        'SkillTag'
    """
    schema = _accepted(response_model.model_json_schema())
    return {"type": "json_schema", "json_schema": {"name": response_model.__name__, "schema": schema}}


def _accepted(node: Any) -> Any:
    if isinstance(node, list):
        return [_accepted(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        name: {field: _accepted(inner) for field, inner in value.items()}
        if name in _NAMES_OF_FIELDS
        else _accepted(value)
        for name, value in node.items()
        if name not in _LEFT_OUT
    }
