"""The limits of each argument, at their borders: what the page of the server says is accepted, and one more is not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ace_mcp import MCPServerConfig
from ace_mcp.models import (
    AskInput,
    GetSkillbookInput,
    LearnFeedbackInput,
    LearnSampleInput,
    LearnTraceInput,
    SessionConfig,
    SkillbookFileInput,
    UseSkillsInput,
    input_schema,
)

LONG = "x" * 100_000
SAMPLE = {"question": "?"}
ASK: dict[str, Any] = {"session_id": "s", "question": "?"}
LEARN: dict[str, Any] = {"session_id": "s", "samples": [SAMPLE]}
FEEDBACK: dict[str, Any] = {"session_id": "s", "question": "?", "answer": "!", "feedback": "no"}
TRACE: dict[str, Any] = {"session_id": "s", "trace": {}}
GET: dict[str, Any] = {"session_id": "s"}
FILE: dict[str, Any] = {"session_id": "s", "path": "a.json"}

BORDERS: list[tuple[type[BaseModel], dict[str, Any], str, list[Any], list[Any]]] = [
    (AskInput, ASK, "session_id", ["s" * 128, "a.b:c@d_e-1"], ["", "s" * 129, "-s", "a/b", "a b", "s\n", "ß"]),
    (AskInput, ASK, "question", ["?", LONG], ["", LONG + "x"]),
    (AskInput, ASK, "context", ["", LONG], [LONG + "x"]),
    (AskInput, ASK, "metadata", [None, {"a": [1]}], [[], "a"]),
    (LearnSampleInput, LEARN, "samples", [[SAMPLE] * 25], [[], [SAMPLE] * 26, [{"question": ""}]]),
    (LearnSampleInput, LEARN, "samples", [[{"question": LONG}]], [[{"question": LONG + "x"}]]),
    (LearnSampleInput, LEARN, "samples", [[{**SAMPLE, "context": LONG}]], [[{**SAMPLE, "context": LONG + "x"}]]),
    (
        LearnSampleInput,
        LEARN,
        "samples",
        [[{**SAMPLE, "ground_truth": LONG}]],
        [[{**SAMPLE, "ground_truth": LONG + "x"}]],
    ),
    (LearnSampleInput, LEARN, "epochs", [1, 20], [0, 21, True, "1"]),
    (LearnFeedbackInput, FEEDBACK, "question", ["?", LONG], ["", LONG + "x"]),
    (LearnFeedbackInput, FEEDBACK, "answer", ["!", LONG], ["", LONG + "x"]),
    (LearnFeedbackInput, FEEDBACK, "feedback", ["!", LONG], ["", LONG + "x"]),
    (LearnFeedbackInput, FEEDBACK, "context", ["", LONG], [LONG + "x"]),
    (LearnFeedbackInput, FEEDBACK, "ground_truth", [None, LONG], [LONG + "x"]),
    (LearnFeedbackInput, FEEDBACK, "answer_id", ["x" * 100], ["", "x" * 101]),
    # As JSON: with the quotation marks or the brackets.
    (LearnTraceInput, TRACE, "trace", ["x" * 99_998, ["x" * 99_996]], ["x" * 99_999, ["x" * 99_997]]),
    (GetSkillbookInput, GET, "limit", [1, 200], [0, 201]),
    (GetSkillbookInput, GET, "query", [LONG], ["", LONG + "x"]),
    (GetSkillbookInput, GET, "section", ["x" * 200], ["", "x" * 201]),
    (SkillbookFileInput, FILE, "path", ["x" * 1000], ["", "x" * 1001]),
    (UseSkillsInput, {"question": "?"}, "question", [LONG], ["", LONG + "x"]),
    (UseSkillsInput, {"question": "?"}, "session_id", ["s" * 128], ["", "s" * 129]),
    (SessionConfig, {}, "model", ["x" * 200], ["", "x" * 201]),
    (SessionConfig, {}, "temperature", [0.0, 2.0], [-0.1, 2.1]),
    (SessionConfig, {}, "max_tokens", [1], [0, 1.5]),
]


@pytest.mark.parametrize(("model", "rest", "name", "accepted", "refused"), BORDERS)
def test_each_argument_is_accepted_up_to_its_limit_and_no_other_is(
    model: type[BaseModel], rest: dict[str, Any], name: str, accepted: list[Any], refused: list[Any]
) -> None:
    config = MCPServerConfig()
    for value in accepted:
        model.model_validate({**rest, name: value}, context=config)
    for value in refused:
        with pytest.raises(ValidationError) as found:
            model.model_validate({**rest, name: value}, context=config)
        assert {error["loc"][0] for error in found.value.errors()} == {name}
    with pytest.raises(ValidationError, match="Extra inputs"):
        model.model_validate({**rest, "extra": 1}, context=config)
    assert input_schema(model, config)["additionalProperties"] is False


def test_the_settings_have_the_documented_defaults_and_ranges() -> None:
    config = MCPServerConfig()
    limits = (
        "max_samples_per_call",
        "max_prompt_chars",
        "session_ttl_seconds",
        "max_sessions",
        "learn_timeout_seconds",
    )
    assert [getattr(config, name) for name in limits] == [25, 100_000, 3600, 100, 300]
    assert (config.safe_mode, config.allow_save_load, config.max_cost, config.http_token) == (False, True, None, None)
    for name in (*limits, "max_cost"):
        with pytest.raises(ValidationError, match="greater than"):
            MCPServerConfig.model_validate({name: 0})
