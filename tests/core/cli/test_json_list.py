"""The elements of a JSON list, wherever the pieces end in which a file is read."""

from __future__ import annotations

import io
import json
from typing import Any

from ace.cli.inputs.splitting import list_elements
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    values=st.lists(VALUES, max_size=5), chunk=st.integers(1, 20), indent=st.sampled_from([None, 1]), raw=st.booleans()
)
def test_a_list_is_split_where_its_elements_end(values: list[Any], chunk: int, indent: int | None, raw: bool) -> None:
    class InChunks(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(chunk)

    whole = json.dumps(values, indent=indent, ensure_ascii=not raw).encode("utf-8", "surrogatepass")
    data = whole.replace(b"x", b"\xff")  # what is no UTF-8 stays as it is too
    elements = list(list_elements(InChunks(data), 0))
    assert [data[element.start : element.start + len(element.data)] for element in elements] == [
        element.data for element in elements
    ]
    assert [
        json.loads(element.data.replace(b"\xff", b"x").decode("utf-8", "surrogatepass")) for element in elements
    ] == values
