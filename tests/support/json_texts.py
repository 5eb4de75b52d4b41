"""Texts of JSON objects in any layout, for tests of what is inserted into them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["COMMENTED_TEXTS", "JSON_TEXTS"]

KEYS = st.one_of(st.sampled_from(["servers", "ours", "other", "a, }", "//", "/*", '"', "\\"]), st.text(max_size=3))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
BLANKS = st.sampled_from(["", "", " ", "\n", "\r\n", "\n    ", "\n\t"])
COMMENTS = st.sampled_from(
    ["", " ", "\n  ", "// note: {\n", '/* "a": } */', "\n  // it's, a note\n  ", "/**/", "// x\r\n"]
)


@st.composite
def objects(draw: st.DrawFn, blanks: st.SearchStrategy[str], comments: bool) -> str:
    """The text of an object, in any layout. What leads to our entry is often there, and always an object."""

    def written(value: object) -> str:
        if isinstance(value, dict):
            members = [f"{json.dumps(key)}{draw(blanks)}:{draw(blanks)}{written(item)}" for key, item in value.items()]
            return listed("{", members, "}")
        if isinstance(value, list):
            return listed("[", [written(item) for item in value], "]")
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def listed(opening: str, parts: list[str], closing: str) -> str:
        between = [f"{draw(blanks)}{part}{draw(blanks)}" for part in parts]
        trailing = f",{draw(blanks)}" if comments and parts and draw(st.booleans()) else ""
        return f"{opening}{draw(blanks)}{','.join(between)}{trailing}{closing}"

    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    value.pop("servers", None)
    if draw(st.booleans()):
        inner: dict[str, object] = draw(st.dictionaries(KEYS, VALUES, max_size=2))
        inner.pop("ours", None)
        if draw(st.booleans()):
            inner["ours"] = {"other": 1} if draw(st.booleans()) else {}
        value = {"servers": inner, **value} if draw(st.booleans()) else {**value, "servers": inner}
    start = draw(st.sampled_from(["", "\ufeff"]))
    return f"{start}{draw(blanks)}{written(value)}{draw(blanks)}"


JSON_TEXTS = objects(BLANKS, comments=False)
COMMENTED_TEXTS = objects(COMMENTS, comments=True)
