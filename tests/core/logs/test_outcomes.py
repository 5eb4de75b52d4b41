"""What counts as success and failure in the fields of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.logs.outcomes import is_failed_output, outcome_in
from tests.core.logs.log_files import runs_of, written

THUMBS_DOWN = "\N{THUMBS DOWN SIGN}"


@pytest.mark.parametrize(
    "fields",
    [
        *({"success": False}, {"success": "false"}, {"success": 0}, {"passed": "No"}, {"isCorrect": False}),
        *({"resolved": False}, {"verdict": "incorrect"}, {"outcome": "Failure"}, {"label": "wrong"}, {"grade": "FAIL"}),
        *({"status": "failed"}, {"status": "error"}, {"error": "no key"}, {"exception": {"message": "x"}}),
        *({"exit_code": 2}, {"returncode": -9}, {"reward": 0}, {"score": 0.0}, {"score": "I"}, {"score": "0"}),
        *({"vote": -1}, {"rating": "thumbs_down"}, {"thumb": "down"}, {"thumbs": THUMBS_DOWN}, {"rating": "dislike"}),
        *({"score": {"value": "I", "explanation": "x"}}, {"scores": {"a": 0, "b": 0}}, {"scores": {"a": {"value": 0}}}),
        *({"scores": [{"name": "a", "value": 0}]}, {"feedback": {"score": 0}}, {"feedback": "thumbs_down"}),
        *({"evaluation": {"passed": False}}, {"report": {"resolved": False}}, {"score": 0.7, "threshold": 0.8}),
        *({"status": "completed", "score": 0}, {"status": "success", "passed": False}, {"status": "ok", "error": "x"}),
    ],
)
def test_a_failure(fields: dict[str, Any]) -> None:
    assert outcome_in(fields).success is False


@pytest.mark.parametrize(
    "fields",
    [
        *({"success": True}, {"success": "True"}, {"passed": 1}, {"resolved": "yes"}, {"verdict": "C"}),
        *({"label": "correct"}, {"reward": 1.0}, {"score": "1"}, {"exit_code": 0}, {"status": "success"}),
        *(
            {"score": 0.7, "threshold": 0.5},
            {"rating": "like"},
            {"scores": {"a": 1, "b": True}},
            {"error": None, "score": 1},
        ),
    ],
)
def test_a_success(fields: dict[str, Any]) -> None:
    assert outcome_in(fields).success is True


@pytest.mark.parametrize(
    "fields",
    [
        *(
            {},
            {"status": "completed"},
            {"status": "done"},
            {"state": "ok"},
            {"score": 0.5},
            {"rating": 4},
            {"score": 87},
        ),
        *({"label": 1}, {"label": "positive"}, {"grade": "C"}, {"grade": "B"}, {"scores": {"a": 1, "b": 0}}),
        *(
            {"status": "timeout"},
            {"status": "cancelled", "error": "x"},
            {"outcome": None, "error": ""},
            {"error": "None"},
        ),
        *({"termination_reason": "infrastructure_error", "reward": 0}, {"status": "running", "score": 0}),
    ],
)
def test_neither(fields: dict[str, Any]) -> None:
    assert outcome_in(fields).success is None


def rated(tmp_path: Path, name: str, *values: Any) -> list[bool | None]:
    records = [{"question": "2+2?", "answer": "5", name: value} for value in values]
    return [run.success for run in runs_of(written(tmp_path / "rated.jsonl", *records))]


@pytest.mark.parametrize("name", ["rating", "score", "user_rating"])
def test_stars_count_where_several_records_show_their_range(tmp_path: Path, name: str) -> None:
    assert rated(tmp_path, name, 1, 5, 3, 2, 4) == [False, True, None, False, True]
    assert rated(tmp_path, name, 5, 5, 4) == [None, None, None]
    assert rated(tmp_path, name, 1, 5) == [None, None]
    assert rated(tmp_path, name, 0, 1, 1) == [False, True, True]
    assert rated(tmp_path, name, 0, 1, 87) == [False, None, None]
    assert rated(tmp_path, name, 0.0, 0.5, 1.0) == [False, None, True]


def test_the_range_shows_only_far_behind_the_beginning(tmp_path: Path) -> None:
    assert rated(tmp_path, "rating", *[1] * 60, 5)[:2] == [False, False]


def test_a_damaged_line_is_named_once_although_the_range_is_looked_up(tmp_path: Path) -> None:
    from ace.logs import Problem, read_runs

    path = written(tmp_path / "rated.jsonl", {"question": "a", "answer": "b", "score": 1})
    with path.open("a") as file:
        file.write('{"question": "c", "ans\n')

    assert sum(isinstance(found, Problem) for found in read_runs(path)) == 1


@pytest.mark.parametrize(
    "output",
    [
        *("Error: no sku", "error: x", "Traceback (most recent call last):\n x", "KeyError: 'a'", "ToolException('x')"),
        *(
            "Exit code: 1\nx",
            "<tool_use_error>x",
            "<returncode>1</returncode>",
            "Process exited with code 2\nOutput:\nx",
        ),
        *('{"error": "x"}', '{"success": false}', '{"output": "", "metadata": {"exit_code": 1}}', {"status": "error"}),
        *("HTTP 404: no such sku", "HTTP/1.1 403 Forbidden", "422 Unprocessable Entity", "curl: 500 Server Error"),
        *("psql: ERROR: no such table", "tix print: error: no printer", {"status": 401, "message": "no key"}),
        *({"statusCode": 500}, {"ok": False}, {"errors": [{"message": "no field x"}]}, '{"code": 422}'),
    ],
)
def test_an_output_that_says_that_it_failed(output: Any) -> None:
    assert is_failed_output(output)


@pytest.mark.parametrize(
    "output",
    [
        *(
            "",
            "ok",
            "3 errors were fixed",
            "The word Error: is in the text",
            "<returncode>0</returncode>",
            "Exit code: 0",
        ),
        *(
            "Output:\nProcess exited with code 2",
            '{"error": null}',
            {"status": "ok"},
            [],
            None,
            "Errors are listed below",
            {"status": 200, "errors": []},
            "404 rooms were booked",
            "HTTP 200 OK",
            {"code": 4711},
        ),
    ],
)
def test_an_output_that_quotes_a_failure(output: Any) -> None:
    assert not is_failed_output(output)
