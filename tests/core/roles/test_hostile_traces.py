"""Traces that are broken, secret or made to break the reader cost nothing but themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from ace.logs.trace import read_trace
from ace.roles.rendering import fitted_sections, sections_of

MARK = "marker-7f3a9"


def rendered(trace: object) -> str:
    text, cut = fitted_sections(sections_of(read_trace(trace)), 1 << 40)
    assert cut == 0
    return text


def test_cycles_depth_and_broken_objects_are_marked() -> None:
    cycle: dict[str, Any] = {"task": "t"}
    cycle["self"] = cycle
    assert "contains itself" in rendered(cycle)
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    assert "nested deeper than 60 levels" in rendered({"task": "t", "deep": deep})

    class Broken:
        __slots__ = ()

        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "Broken that has no text: RuntimeError" in rendered({"task": "t", "x": Broken()})
    shared = [MARK]
    assert rendered({"a": shared, "b": shared}).count(MARK) == 2


def test_lone_surrogates_and_nul_stay_visible_and_can_be_sent() -> None:
    text = rendered({"task": "a\ud800b\x00c"})
    assert "a\\ud800b\x00c" in text
    text.encode()


def test_no_key_takes_the_place_of_another_that_looks_alike() -> None:
    for first, second in (("\ud800", "\\ud800"), ("\\ud800", "\ud800"), ("1", 1)):
        assert set(read_trace({first: "one", second: "two"})["rest"].values()) == {"one", "two"}


def test_keys_and_passwords_are_hidden_by_their_names() -> None:
    text = rendered(
        {
            "task": "t",
            "api_key": "sk-123",
            "headers": {"Authorization": "Bearer sk-123"},
            "s": SecretStr("sk-123"),
        }
    )
    assert "sk-123" not in text
    assert text.count("[hidden]") == 2


class Raising:
    """Raises KeyError for what it lacks, as wrappers around a dict do."""

    def __init__(self, output: str) -> None:
        self.output = output

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class RaisingList(list[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("closed")


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        (np.arange(5), "[0, 1, 2, 3, 4]"),
        (Raising("inside"), "inside"),
        (RaisingList([1]), "RaisingList that cannot be looked into: RuntimeError"),
        (10**6000, hex(10**6000)),
        (-(10**6000), hex(-(10**6000))),
    ],
    ids=["array", "raising attributes", "raising list", "huge number", "huge negative number"],
)
def test_an_object_that_cannot_be_read_costs_nothing_of_the_rest(hostile: object, shown: str) -> None:
    text = rendered({"task": "t", "found": hostile, "after": MARK})
    assert shown in text
    assert MARK in text
    assert rendered(hostile)


def test_a_key_is_hidden_whatever_its_type_and_an_empty_one_is_shown_as_such() -> None:
    text = rendered({"task": "t", "api_key": np.array([123456, 2]), "secret": 0, "password": None, "private_key": []})
    assert "123456" not in text
    assert text.count("[hidden]") == 1
    assert "## secret\n0" in text
