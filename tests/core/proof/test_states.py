"""The first page of `ace.proof` lists the transitions that the machine allows."""

from __future__ import annotations

import re

import ace.proof
from ace.proof.operation import TRANSITIONS, ProofState


def test_the_first_page_lists_all_transitions() -> None:
    listed = re.findall(r"^ {4}(\w+) +-> (\w+) ", ace.proof.__doc__ or "", re.MULTILINE)
    assert len(listed) == len(set(listed))
    allowed = {(before.value, after.value) for before, states in TRANSITIONS.items() for after in states}
    assert set(listed) == allowed


def test_every_state_can_be_reached_and_ends_have_no_successor() -> None:
    reached = {ProofState.WRITTEN}.union(*TRANSITIONS.values())
    assert reached == set(ProofState)
    assert {state.value for state in set(ProofState) - set(TRANSITIONS)} == {
        *("kept", "pending", "dropped", "joined", "untried")
    }
