"""Which messages of recorded runs a person wrote after an answer: only these can be judgements."""

from __future__ import annotations

import pytest

from ace.cases import replies_in
from ace.logs.trace import read_trace
from tests.core.logs.log_files import DATA, runs_of


def replies(name: str) -> list[str]:
    """Return the replies in all runs of a sample file."""
    return [" ".join(reply.text.split()) for run in runs_of(DATA / name) for reply in replies_in(read_trace(run))]


@pytest.mark.parametrize(
    "name",
    [
        *("miniswe.traj.json", "sweagent.traj", "harness_error_as_user.json", "legacy_function_call.json"),
        *("openhands_output.jsonl", "openhands_traj.json", "hal_gaia.jsonl", "inspect.json", "atif.json"),
        *(
            "autogen_messages.json",
            "crewai_log.json",
            "smolagents_steps.json",
            "bu_old.json",
            "react_user_observation.json",
        ),
    ],
)
def test_what_a_harness_sends_in_the_role_of_the_user_is_no_reply(name: str) -> None:
    assert replies(name) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cc_german_correction.jsonl", ["Nein, das ist falsch. Der Preis ist 7."]),
        ("cline_api_history.json", ["No, that's wrong. It is 14 days."]),
        ("dify_logs.csv", ["Wrong: kettles have 14 days not 30."]),
        ("sharegpt.json", ["No, that's wrong. It is 14 days."]),
        ("qwen.jsonl", ["It is 14."]),
    ],
)
def test_what_a_person_says_after_an_answer_is_a_reply(name: str, said: list[str]) -> None:
    assert replies(name) == said
