"""Fields that take what models tend to write in the place of what they were asked for."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

__all__ = ["LenientOutput", "Raw", "Text", "as_list", "as_share", "lower_case"]


def _as_text(value: object) -> object:
    """Models write null for "nothing" and true for "true"; both are unambiguous as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def lower_case(value: object) -> object:
    """Return a text without blanks around it, in lower case; anything else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def as_list(value: object) -> object:
    """Models write null for an empty list too."""
    return [] if value is None else value


def as_share(value: object) -> object:
    """Read 0.9, "0.9", "90%" and 90 as the same share."""
    if isinstance(value, str):
        number = value.strip()
        if number.endswith("%"):
            return float(number[:-1]) / 100 if _is_number(number[:-1]) else value
        value = float(number) if _is_number(number) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 < value <= 100:
        return value / 100
    return 0.0 if value is None else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


Text = Annotated[str, BeforeValidator(_as_text)]
Raw = SkipJsonSchema[dict[str, Any]]


class LenientOutput(BaseModel):
    """Unknown fields are ignored, and numbers are accepted where text is expected."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, validate_by_name=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Show models the first paragraph of a docstring: the rest, such as its example, is for programmers."""
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        if "description" in described:
            described["description"] = described["description"].partition("\n\n")[0]
        return schema
