"""Expressions that are paths of names are evaluated without JMESPath, with the same result."""

from __future__ import annotations

import jmespath
from hypothesis import given
from hypothesis import strategies as st

from ace.logs.mapping import value_at

NAMES = st.sampled_from(["a", "b", "c_1"])
EXPRESSIONS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(".".join), min_size=1, max_size=3).map(" || ".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from([0, 1, 0.0, "", "x", [], ["x"]]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=12,
)


@given(expression=EXPRESSIONS, record=VALUES)
def test_paths_select_what_jmespath_selects(expression: str, record: object) -> None:
    assert repr(value_at(expression, record)) == repr(jmespath.search(expression, record))
