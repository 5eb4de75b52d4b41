"""Request JSON from a model, validate the object in its answer, and ask again with the error if it is invalid."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from ace.calls.calling import finished
from ace.calls.model_calls import AnswerProblem, RejectedAnswer, until_usable
from ace.protocols.errors import UnusableAnswerError, encodable
from ace.protocols.llm import LayeredPrompt, LLMResponse, StructuredAnswer

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "accepted_schema",
    "ask_until_valid",
    "broken_json",
    "described",
    "json_objects",
    "prompt_messages",
    "read_answer",
    "structure_of",
    "unmarked",
    "valid_answer",
]

_LONGEST_SHOWN_ANSWER = 4000
_MOST_SHOWN_ERRORS = 10


def ask_until_valid(
    ask: Callable[[list[dict[str, Any]]], LLMResponse],
    prompt: str,
    response_model: type[StructuredAnswer],
    *,
    max_retries: int,
    system: str | None = None,
    shows_schema: bool = True,
) -> StructuredAnswer:
    """Ask until an answer validates.

    Every answer counts towards the answer budget around this call, if any, which may end the attempts before
    `max_retries` is reached.

    Args:
        ask: Sends chat messages and returns the answer.
        prompt: The prompt, without the fields of the answer.
        response_model: The class that the answer must validate as.
        max_retries: How often to ask again.
        system: The text of a system message.
        shows_schema: Whether the prompt describes the fields; False if the model gets them in another way.

    Raises:
        UnusableAnswerError: No answer validates; it carries all of them.
    """

    async def asked(messages: list[dict[str, Any]]) -> LLMResponse:
        return ask(messages)

    return finished(
        valid_answer(asked, prompt, response_model, max_retries=max_retries, system=system, shows_schema=shows_schema)
    )


async def valid_answer(
    ask: Callable[[list[dict[str, Any]]], Awaitable[LLMResponse]],
    prompt: str,
    response_model: type[StructuredAnswer],
    *,
    max_retries: int,
    system: str | None = None,
    shows_schema: bool = True,
    marked: bool = False,
    ask_longer: Callable[[list[dict[str, Any]]], Awaitable[LLMResponse]] | None = None,
) -> StructuredAnswer:
    """Ask until an answer validates, without blocking; otherwise like `ask_until_valid`.

    Args:
        ask: Sends chat messages and returns the answer; it is awaited.
        prompt: The prompt, without the fields of the answer.
        response_model: The class that the answer must validate as.
        max_retries: How often to ask again.
        system: The text of a system message.
        shows_schema: Whether the prompt describes the fields; False if the model gets them in another way.
        marked: Whether the messages contain the cache marks of `prompt_messages`.
        ask_longer: Sends the messages with a higher limit on the length of the answer; used once, after an answer that
            was cut off. None if the model does not allow more.

    Raises:
        UnusableAnswerError: No answer validates, or the model refuses to answer; it carries all answers.
    """
    longer = ask_longer
    is_cut = False
    start = prompt_messages(
        prompt, system=system, response_model=response_model if shows_schema else None, marked=marked
    )

    async def asked(rejected: RejectedAnswer | None) -> LLMResponse:
        nonlocal longer
        if is_cut and longer is not None:
            ask_once, longer = longer, None
            return await ask_once(start)
        return await ask(start if rejected is None else [*start, *_correction(rejected)])

    def read(response: LLMResponse) -> StructuredAnswer:
        nonlocal is_cut
        is_cut = response.finish_reason == "length"
        try:
            return read_answer(response.text, response_model)
        except AnswerProblem as error:
            if response.refusal or response.finish_reason == _FILTERED:
                raise UnusableAnswerError(_refused(response), raw_answers=[response.text]) from error
            if not is_cut:
                raise
            advice = "the answer was cut off at max_tokens: write less, or raise max_tokens"
            raise AnswerProblem(f"{error} ({advice})") from error

    return await until_usable(asked, read, text_of=lambda response: response.text, max_retries=max_retries)


_FILTERED = "content_filter"


def _refused(response: LLMResponse) -> str:
    """Describe an answer for which it would not help to ask again."""
    if response.refusal:
        return f"the model refused to answer: {response.refusal}"
    return "the answer was withheld by the content filter of the provider"


CACHE_MARK: Final[Mapping[str, str]] = {"type": "ephemeral"}
"""The value of `cache_control` at the end of a part that Anthropic's cache is to keep."""
_NOTHING_ELSE = "Write nothing but this object: no code fence, no text around it."
_AS_DESCRIBED = "Answer with one JSON object as described in the instructions above, and nothing else."


def prompt_messages(
    prompt: str,
    *,
    system: str | None = None,
    response_model: type[BaseModel] | None = None,
    marked: bool = False,
) -> list[dict[str, Any]]:
    """Return a prompt as chat messages.

    The parts of a `LayeredPrompt` that repeat from call to call become the system message, in which the fields of the
    answer precede the skills. In any other prompt, the fields of the answer come last.

    Args:
        prompt: A `LayeredPrompt`, or any other text.
        system: Additional text for the system message.
        response_model: The class that the answer must validate as; None omits its fields.
        marked: Whether the system message of a `LayeredPrompt` is a list of texts, with a mark for the provider's cache
            after the rules and after the skills; `unmarked` joins them.

    Example:
        >>> from ace.protocols import LayeredPrompt
        >>> prompt_messages(LayeredPrompt("Be brief.", "- Add twice.", "", "2+2?"))
        [{'role': 'system', 'content': 'Be brief.\\n\\n- Add twice.\\n\\n'}, {'role': 'user', 'content': '2+2?'}]
    """
    if not isinstance(prompt, LayeredPrompt):
        start: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        text = prompt if response_model is None else _with_fields(prompt, response_model)
        return [*start, {"role": "user", "content": text}]

    rules = "\n\n".join(filter(None, (prompt.rules, system)))
    task = prompt.task
    if response_model is not None:
        rules, task = _with_fields(rules, response_model), f"{task.rstrip()}\n\n{_AS_DESCRIBED}\n"
    texts = [f"{part.rstrip()}\n\n" for part in (rules, prompt.skills, prompt.changes) if part]
    content: object = "".join(texts)
    if marked:
        stable = 1 + bool(prompt.skills)
        parts = [{"type": "text", "text": text} for text in texts]
        content = [{**part, "cache_control": dict(CACHE_MARK)} for part in parts[:stable]] + parts[stable:]
    return [{"role": "system", "content": content}, {"role": "user", "content": task}]


def unmarked(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with the marked texts of `prompt_messages` joined to one; return any other message unchanged."""
    content = message.get("content")
    if message.get("role") != "system" or not isinstance(content, list):
        return dict(message)
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return dict(message)
    return {**message, "content": "".join(str(part["text"]) for part in content)}


def _with_fields(prompt: str, response_model: type[BaseModel]) -> str:
    return f"{prompt.rstrip()}\n\n{described(response_model)}\n\n{_NOTHING_ELSE}\n"


@lru_cache(maxsize=64)
def described(response_model: type[BaseModel]) -> str:
    """Return the instruction that names the fields of the answer, as text.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> print(described(SkillTag))
        Answer with one JSON object that has these fields:
        - id (text): The id of a skill, such as geography-00001.
        - tag (text): helpful, harmful or neutral.
    """
    schema = response_model.model_json_schema()
    definitions = schema.get("$defs", {})
    lines = ["Answer with one JSON object that has these fields:", *_fields(schema, definitions, "", ())]
    return "\n".join(lines)


_Schema = dict[str, Any]


def _fields(
    schema: _Schema, definitions: Mapping[str, _Schema], indent: str, around: tuple[_Schema, ...]
) -> Iterator[str]:
    """Yield a line for each field of an object, and those of the objects in it.

    Args:
        around: The objects that contain this one. One that contains itself is described once.
    """
    node = _resolved(schema, definitions)
    if node in around:
        return
    for name, field_schema in node.get("properties", {}).items():
        value = _resolved(field_schema, definitions)
        description = field_schema.get("description") or value.get("description") or ""
        yield f"{indent}- {name} ({_kind(value, definitions)})" + (f": {description}" if description else "")
        items = value.get("items") or value
        yield from _alternatives(_resolved(items, definitions), definitions, f"{indent}  ", (*around, node))


def _alternatives(
    node: _Schema, definitions: Mapping[str, _Schema], indent: str, around: tuple[_Schema, ...]
) -> Iterator[str]:
    variants = [_resolved(variant, definitions) for variant in node.get("anyOf", ())]
    objects = [variant for variant in variants if "properties" in variant]
    if len(objects) < 2:
        yield from _fields(objects[0] if objects else node, definitions, indent, around)
        return
    for number, variant in enumerate(objects, 1):
        yield f"{indent}{'either' if number == 1 else 'or'}"
        yield from _fields(variant, definitions, f"{indent}  ", around)


def _resolved(node: _Schema, definitions: Mapping[str, _Schema]) -> _Schema:
    reference = node.get("$ref", "")
    return definitions.get(reference.rpartition("/")[2], {}) if reference else node


def _kind(node: _Schema, definitions: Mapping[str, _Schema]) -> str:
    if "const" in node:
        return f'always "{node["const"]}"'
    if "enum" in node:
        return " or ".join(f'"{value}"' for value in node["enum"])
    if "anyOf" in node:
        kinds = [_kind(_resolved(variant, definitions), definitions) for variant in node["anyOf"]]
        return " or ".join(dict.fromkeys(kinds))
    match node.get("type"):
        case "array":
            items = _resolved(node.get("items", {}), definitions)
            return "list of texts" if items.get("type") == "string" else "list, may be empty"
        case "string":
            return f"text of at most {node['maxLength']} characters" if "maxLength" in node else "text"
        case "integer" | "number" as name:
            limits = [f"{word} {node[key]:g}" for word, key in (("from", "minimum"), ("to", "maximum")) if key in node]
            return " ".join(["whole number" if name == "integer" else "number", *limits])
        case "boolean":
            return "true or false"
        case other:
            return str(other or "value")


def read_answer(answer: str, response_model: type[StructuredAnswer]) -> StructuredAnswer:
    """Find and validate the JSON object in an answer.

    If the answer contains several objects, exactly one must validate; equal objects count as one.

    Args:
        answer: The answer of a model.
        response_model: The class that the object must validate as.

    Raises:
        AnswerProblem: None of the objects validates, or several different ones do.

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
            value = _validated(_unwrapped(found, response_model), response_model)
        except AnswerProblem as error:
            problem = problem or str(error)
        else:
            if value not in valid:
                valid.append(value)
    if len(valid) > 1:
        raise AnswerProblem(f"the answer has {len(valid)} different JSON objects; answer with one")
    if not valid:
        raise AnswerProblem(broken_json(answer) or problem or "no JSON object in the answer")
    return valid[0]


def _unwrapped(found: dict[str, Any], response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the object with the fields of a class, which models put into one with its name, or into its schema."""
    fields = response_model.model_fields.keys()
    if fields & found.keys():
        return found
    only = next(iter(found.values())) if len(found) == 1 else None
    inner = (candidate for candidate in (only, found.get("properties")) if isinstance(candidate, dict))
    return next((candidate for candidate in inner if fields & candidate.keys()), found)


def _validated(found: dict[str, Any], response_model: type[StructuredAnswer]) -> StructuredAnswer:
    from pydantic import ValidationError

    # The field `raw` is reserved for the unchanged answer, even if the model wrote a field of that name.
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


def _correction(rejected: RejectedAnswer) -> list[dict[str, Any]]:
    answer, problem = rejected
    shown = answer
    if len(shown) > _LONGEST_SHOWN_ANSWER:
        half = _LONGEST_SHOWN_ANSWER // 2
        shown = f"{shown[:half]}\n[... {len(answer) - 2 * half} characters omitted ...]\n{shown[-half:]}"
    return [
        # Some servers reject an empty message.
        {"role": "assistant", "content": shown or "(empty)"},
        {
            "role": "user",
            "content": f"This answer cannot be used: {problem}\nAnswer again with corrected JSON.",
        },
    ]


_THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
# Unescaped control characters in strings, such as line breaks, are common and harmless.
_DECODER = json.JSONDecoder(strict=False)
_MOST_STARTS = 200


def json_objects(answer: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects of an answer, in order.

    Prose and code fences around an object are skipped, and so is the reasoning that some models write before their
    answer. Nested objects are not yielded separately.

    Args:
        answer: The answer of a model.

    Example:
        >>> list(json_objects('Here you are: {"a": {"b": 1}} I hope it helps.'))
        [{'a': {'b': 1}}]
    """
    text = _without_thoughts(answer)
    position, has_found = 0, False
    for _ in range(_MOST_STARTS):
        position = text.find("{", position)
        if position < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            # RecursionError: nested too deeply to match any of our schemas.
            position += 1
            continue
        position, has_found = end, True
        yield _encodable(value)
    if not has_found and (literal := _python_object(text)) is not None:
        yield _encodable(literal)


def _without_thoughts(answer: str) -> str:
    """Return an answer without the reasoning before it, whose opening tag may be part of the prompt template."""
    text = _THOUGHTS.sub("", answer, count=1)
    thoughts, tag, rest = text.rpartition("</think>")
    return rest if tag and "{" in rest and not thoughts.lstrip().startswith(("{", "`")) else text


def _python_object(text: str) -> dict[str, Any] | None:
    """Return the object that a text contains in Python's notation, with single quotes; None if there is none."""
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end <= start + _LONGEST_PYTHON_OBJECT:
        return None
    try:
        value = ast.literal_eval(text[start:end])
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # what it raises for other texts
        return None
    return value if isinstance(value, dict) and all(isinstance(name, str) for name in value) else None


_LONGEST_PYTHON_OBJECT = 100_000


def _encodable(value: Any) -> Any:
    """Replace lone surrogates, which a model can write as escape sequences and which cannot be encoded as UTF-8."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {encodable(key): _encodable(item) for key, item in value.items()}
    return value


def broken_json(answer: str) -> str | None:
    """Describe the syntax error in the first JSON object of an answer; None if it is valid or missing.

    Args:
        answer: The answer of a model.

    Example:
        >>> broken_json('{"a": 1')
        "the JSON is broken: Expecting ',' delimiter: line 1 column 8 (char 7)"
    """
    text = _without_thoughts(answer)
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


_LEFT_OUT = frozenset({"pattern", "format", "title", "description", "default", "examples"})
"""Keywords that the server does not need, because `described` says what the fields contain, or that some servers do not
support or interpret differently. The answer is validated afterwards anyway."""
_NAMES_OF_FIELDS = frozenset({"properties", "$defs"})


@lru_cache(maxsize=64)
def accepted_schema(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the `response_format` of a chat request, which asks the server to enforce the schema.

    Args:
        response_model: The class that the answer must validate as.

    Example:
        >>> from ace.outputs import SkillTag
        >>> accepted_schema(SkillTag)["json_schema"]["name"]
        'SkillTag'
    """
    schema = structure_of(response_model)
    return {"type": "json_schema", "json_schema": {"name": response_model.__name__, "schema": schema}}


def structure_of(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class without its descriptions.

    Args:
        response_model: The class that the answer must validate as.

    Example:
        >>> from ace.outputs import SkillTag
        >>> structure_of(SkillTag)["properties"]
        {'id': {'type': 'string'}, 'tag': {'type': 'string'}}
    """
    schema: dict[str, Any] = _without_texts(response_model.model_json_schema())
    return schema


def _without_texts(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_texts(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        name: {field: _without_texts(inner) for field, inner in value.items()}
        if name in _NAMES_OF_FIELDS
        else _without_texts(value)
        for name, value in node.items()
        if name not in _LEFT_OUT
    }
