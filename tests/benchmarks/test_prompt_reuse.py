"""The replay of 60 samples, of whose prompts most repeats the previous one of the role."""

from __future__ import annotations

import pytest

from benchmarks.prompt_reuse import GOAL, ROLES, repeated_shares, replay


@pytest.mark.parametrize("size", [200, 1500])
def test_most_of_the_prompts_repeats_the_previous_one_of_the_role(size: int) -> None:
    calls = replay(size)
    shares = repeated_shares(calls)
    assert {call.role for call in calls} == set(ROLES) and len(calls) == 180
    assert shares["all"] >= GOAL, shares
    # The reflector sees only the skills that fit the run: what repeats is its text and the fields of the answer.
    assert shares["Agent"] >= GOAL and shares["SkillManager"] >= GOAL and shares["Reflector"] > 0.5, shares
    assert repeated_shares(calls, earlier=True)["all"] < 0.4
