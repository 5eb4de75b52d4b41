"""A spec that is written wrong says so when it is made."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ace.plugins import ExecuteStepSpec, ObserverOption, ObserverSpec, StoreSpec, TraceConverterSpec


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


def test_the_options_of_an_observer_begin_with_its_name_and_the_first_one_enables_it() -> None:
    switch = ObserverOption(name="night-owl", summary="Watch")
    spec = ObserverSpec(name="night_owl", target="a:b", options=(switch,))
    variable = "ACE_NIGHT_OWL"
    assert [spec.is_enabled({variable: value}) for value in ("1", "all", "0", "")] == [True, True, False, False]
    assert not spec.is_enabled({}) and ObserverSpec(name="night_owl", target="a:b").is_enabled({})
    with pytest.raises(ValueError, match=r"'night-owl', or begin with 'night-owl-', got 'night-owls'"):
        ObserverSpec(name="night_owl", target="a:b", options=(ObserverOption(name="night-owls", summary="Watch"),))


def test_a_requirement_is_written_as_in_pep_508() -> None:
    with pytest.raises(ValueError, match=r"a requirement must be written as in PEP 508, got 'acme agent>=2'"):
        ExecuteStepSpec(name="acme", target="acme:Step", requires=("acme agent>=2",))
