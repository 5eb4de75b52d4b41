"""Parts of a JSON schema that is shown to models."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import JsonSchemaValue

__all__ = ["described"]


def described(description: str, **schema: Any) -> JsonSchemaValue:
    """Return the schema of a text.

    Args:
        description: What it contains.
        **schema: Further keywords of the schema, such as `enum`.
    """
    return {"type": "string", "description": description, **schema}
