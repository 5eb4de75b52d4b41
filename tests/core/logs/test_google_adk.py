"""Sessions of Google's Agent Development Kit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.core.logs.log_files import run_of, steps_of, written


def event(author: str, *parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    content = {"role": "user" if author == "user" else "model", "parts": list(parts)}
    return {"author": author, "invocationId": "i1", "timestamp": 1767348000.5, "content": content, **fields}


SESSION = {
    "id": "s1",
    "appName": "shop",
    "userId": "u",
    "events": [
        event("user", {"text": "Which port?"}),
        event("clerk", {"text": "Read it.", "thought": True}, usageMetadata={"promptTokenCount": 7}),
        event("clerk", {"text": "half"}, partial=True),
        event("clerk", {"functionCall": {"id": "c1", "name": "read", "args": {"path": "cfg"}}}),
        event("clerk", {"functionResponse": {"id": "c1", "name": "read", "response": {"error": "no file"}}}),
        event("clerk", {"text": "Not found."}, errorCode=None),
    ],
}


def snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {re.sub(r"([A-Z])", r"_\1", key).lower(): snake(item) for key, item in value.items()}
    return [snake(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("session", [SESSION, snake(SESSION), SESSION["events"], {"sessions": [SESSION]}])
def test_a_session(tmp_path: Path, session: Any) -> None:
    run = run_of(written(tmp_path / "session.json", session))

    assert steps_of(run) == [
        "person: Which port?",
        "thought: Read it.",
        'read {"path": "cfg"}',
        "read failed: no file",
        "agent: Not found.",
    ]
    assert (run.task, run.answer, run.tokens.input) == ("Which port?", "Not found.", 7)


def test_a_session_that_ends_with_an_error(tmp_path: Path) -> None:
    error = {"author": "clerk", "invocationId": "i1", "errorCode": "429", "errorMessage": "quota"}

    run = run_of(written(tmp_path / "session.json", {"id": "s1", "events": [*SESSION["events"][:1], error]}))

    assert (run.id, run.success, run.answer) == ("s1", None, "")
    assert "quota" in run.reason


@pytest.mark.parametrize(
    "names", [("executableCode", "codeExecutionResult"), ("executable_code", "code_execution_result")]
)
def test_code_that_the_model_runs(tmp_path: Path, names: tuple[str, str]) -> None:
    code, result = {names[0]: {"code": "1/0"}}, {names[1]: {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}}

    run = run_of(written(tmp_path / "events.json", [event("user", {"text": "1/0?"}), event("clerk", code, result)]))

    assert steps_of(run) == ["person: 1/0?", "code 1/0", "code failed: ZeroDivisionError"]
