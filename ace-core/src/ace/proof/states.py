"""The states of an operation while it is proven, and which state may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = ["TRANSITIONS", "ProofState"]


class ProofState(Enum):
    """Where an operation is. The first five have an action in `OperationProof`; the others are ends."""

    WRITTEN = "written"
    """A role has written it. Nothing was asked."""
    TRIED = "tried"
    """The question of its case was asked with its text alone."""
    FAILED = "failed"
    """Neither its text nor one of the reflector passes."""
    PASSED = "passed"
    """A text passes alone, or nothing can judge the answer."""
    BREAKS = "breaks"
    """With it, a case of another skill fails that passes without it."""

    KEPT = "kept"
    """It is applied, with the results of its cases."""
    PENDING = "pending"
    """It is applied with the text of the role and the reason, and no agent is shown it."""
    DROPPED = "dropped"
    """It is not applied; the history says why."""
    JOINED = "joined"
    """Another sample has taught the same meanwhile: that skill gets its cases."""
    UNTRIED = "untried"
    """It has no case, or will not be applied anyway, so it is passed on as it is."""


_STATE = ProofState

TRANSITIONS: Final[Mapping[ProofState, frozenset[ProofState]]] = {
    _STATE.WRITTEN: frozenset({_STATE.TRIED, _STATE.JOINED, _STATE.UNTRIED}),
    _STATE.TRIED: frozenset({_STATE.PASSED, _STATE.FAILED}),
    _STATE.FAILED: frozenset({_STATE.PASSED, _STATE.PENDING, _STATE.KEPT, _STATE.DROPPED}),
    _STATE.PASSED: frozenset({_STATE.KEPT, _STATE.BREAKS}),
    _STATE.BREAKS: frozenset({_STATE.KEPT, _STATE.DROPPED}),
}
"""The states that may follow each state; an end has none."""
