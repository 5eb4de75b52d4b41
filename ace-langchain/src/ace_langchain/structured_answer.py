"""The input and the output of a model's own `with_structured_output`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ace.protocols import StructuredAnswer
from ace_langchain.messages import plain_message

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from pydantic import BaseModel

__all__ = ["raw_text", "schema_of", "validated"]


def schema_of(response_model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, with the two fields that some models require."""
    schema = response_model.model_json_schema()
    return {"title": response_model.__name__, "description": f"A {response_model.__name__}.", **schema}


def raw_text(text: str, answer: AIMessage) -> str:
    """Return the text of a model's answer, or the arguments of its tool call if it had to answer with one.

    Args:
        text: The text of its answer.
        answer: The answer.
    """
    calls = plain_message(answer)["tool_calls"]
    return text or (str(calls[0]["args"]) if calls else "")


def validated(returned: dict[str, Any], response_model: type[StructuredAnswer]) -> StructuredAnswer:
    """Return the answer as an instance of its class.

    Args:
        returned: What a model with `include_raw=True` returned.
        response_model: The class.

    Raises:
        ValueError: The answer does not validate; this includes the errors of pydantic.
    """
    parsed = returned["parsed"]
    if not isinstance(parsed, dict):
        raise ValueError(str(returned["parsing_error"] or "it does not use the schema"))
    # `raw` is ours: it keeps the answer as it came.
    return response_model.model_validate({**parsed, "raw": parsed} if "raw" in response_model.model_fields else parsed)
