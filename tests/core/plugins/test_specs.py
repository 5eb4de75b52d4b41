"""A spec that is written wrong says so when it is made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ace.plugins import ExecuteStepSpec, StoreSpec, TraceConverterSpec


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schemes": ("acme://",)}, "a scheme must be in lower case, such as 'acme', got 'acme://'"),
        ({"schemes": ("Acme",)}, "a scheme must be in lower case, such as 'acme', got 'Acme'"),
        ({"suffixes": ("acme",)}, "a suffix must be in lower case, such as '.acme', got 'acme'"),
        ({"suffixes": (".ACME",)}, "a suffix must be in lower case, such as '.acme', got '.ACME'"),
        ({"schemes": "acme"}, "schemes must be a tuple of strings, got 'acme'"),
        ({}, "schemes or suffixes must be given, otherwise the store cannot be opened"),
    ],
)
def test_a_store_that_no_location_would_reach_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        StoreSpec(name="acme", target="acme.store:Store", **fields)


@pytest.mark.parametrize("reference", ["acme", "acme:", "acme.Result", "acme: Result", 7])
def test_a_reference_is_written_in_one_way(reference: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("'package.module:attribute'")):
        ExecuteStepSpec(name="acme", target="acme:Step", produces=reference)
    with pytest.raises(ValueError, match=re.escape("'package.module:attribute'")):
        TraceConverterSpec(name="acme", target="acme:Step", recognises=reference)
