"""A converter that claims a trace and then fails is named; a score that is no number claims nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ace.logs.trace import read_trace
from ace.protocols import (
    TraceConversionError,
    TraceConverter,
    register_trace_converter,
    unregister_trace_converter,
)


def gives_nothing(trace: object) -> Any:
    return None


def raises(trace: object) -> Any:
    raise KeyError("messages")


@pytest.mark.parametrize(
    ("convert", "reason"),
    [(raises, "KeyError: 'messages'"), (gives_nothing, "it returned a NoneType"), (str, "it returned a str")],
)
def test_a_converter_that_fails_to_convert_is_named(convert: Callable[[object], Any], reason: str) -> None:
    register_trace_converter(TraceConverter(name="broken", recognises=lambda trace: 1.0, convert=convert))
    try:
        with pytest.raises(TraceConversionError, match=f"'broken' claims this dict but cannot convert it.*{reason}"):
            read_trace({"task": "t"})
    finally:
        unregister_trace_converter("broken")


def test_a_score_that_is_no_number_claims_nothing(caplog: pytest.LogCaptureFixture) -> None:
    register_trace_converter(TraceConverter(name="broken", recognises=lambda trace: float("nan"), convert=raises))
    try:
        assert read_trace({"task": "t"})["question"] == "t"
    finally:
        unregister_trace_converter("broken")
    assert "'broken' failed" in caplog.text
