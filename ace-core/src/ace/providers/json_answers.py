"""Find the JSON object in what a model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ace.protocols.errors import encodable

__all__ = ["broken_json", "json_objects"]

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
