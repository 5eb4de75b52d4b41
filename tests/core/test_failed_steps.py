"""What the feedback says of results that are failures: their cause, in a few words."""

from __future__ import annotations

import json

import pytest

from ace.traces import failed_steps, trace_step

ENOENT = "ENOENT: no such file or directory, access '/home/dev/notes.md'"


def failure(output: str) -> str:
    [sentence] = failed_steps([trace_step("result", "read", output, "7", is_error=True)])
    return sentence


@pytest.mark.parametrize(
    "output",
    [
        {"status": "error", "tool": "read", "error": ENOENT},
        {"error": {"code": "ENOENT", "message": ENOENT}},
        {"ok": False, "details": {"stderr": f"{ENOENT}\n"}},
        {"errors": [{"message": ENOENT}]},
        {"isError": True, "content": [{"type": "text", "text": ENOENT}]},
        [{"type": "text", "text": ENOENT}],
        {"reason": ENOENT},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_cause_is_found_in_json(output: object, indent: int | None) -> None:
    assert failure(json.dumps(output, indent=indent)) == f"read failed at 7: {ENOENT}"


def test_json_without_a_cause_is_shown_as_it_begins() -> None:
    assert (
        failure(json.dumps({"exitCode": 2, "files": []}, indent=2)) == 'read failed at 7: {"exitCode": 2, "files": []}'
    )


def test_what_only_looks_like_json_is_text() -> None:
    assert failure("{ not JSON\nlast line }") == "read failed at 7: { not JSON ... last line }"
    assert failure("404") == "read failed at 7: 404"
    assert failure("[" * 100_000).startswith("read failed at 7: [[[[")


def test_a_long_line_is_cut() -> None:
    for output in ("x" * 1_000_000, json.dumps({"error": "x" * 1_000_000}), f"{'x' * 9999}\n{'y' * 9999}"):
        assert len(failure(output)) < 700
        assert "[cut]" in failure(output)


def test_many_failures_are_counted() -> None:
    steps = [trace_step("result", "bash", f"error {number}", str(number), is_error=True) for number in range(100)]
    sentences = failed_steps(steps)
    assert sentences[0] == "bash failed at 0: error 0"
    assert sentences[-2] == "bash failed at 99: error 99"
    assert sentences[-1] == "70 more results are failures."
    assert len(sentences) == 31


def test_a_failure_that_repeats_is_told_once() -> None:
    steps = [trace_step("result", "bash", "no such host", str(number), is_error=True) for number in range(5)]
    assert failed_steps(steps) == ["bash failed at 0, 1, 2, 3, 4: no such host"]
