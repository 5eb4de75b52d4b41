"""Proofs of skills: before a lesson is kept, an agent answers the question that taught it, with the lesson.

The order of events, from a trace to a proven skill:

1. `trace_facts` keeps what the trace of a sample says, and `judging` makes its corrections into cases.
2. `lookup` asks the cases that a skill may already answer. What passes is known, and nothing is learned from it.
3. `batch` proves the operations that the other cases have led to, one after the other, while the sample holds the
   lane. `leakage_guard` says which texts will be rejected, so that they are not tried.
4. `final_test` asks the cases of a run once more whose skills have got competition since they were asked.

`prover` asks all these questions: `CaseProver`. `ace.steps` has the steps that call this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.proof.prover import PROVE_ROLE, CaseOutcome, CaseProver

__all__ = ["PROVE_ROLE", "CaseOutcome", "CaseProver"]

__getattr__, __dir__ = lazy_exports(__name__, {"PROVE_ROLE": "prover", "CaseOutcome": "prover", "CaseProver": "prover"})
