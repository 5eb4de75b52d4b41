"""Proofs of skills: before a lesson is kept, an agent answers the question that taught it, with the lesson.

The order of events, from a trace to a proven skill:

1. `trace_facts` keeps what the trace of a sample says, and `judged_cases` makes its corrections into cases.
2. `lookup` asks the cases that a skill may already answer. What passes is known, and nothing is learned from it.
3. While the sample holds the lane, `batch` proves the operations that the other cases have led to, one after the other:
   each is one `OperationProof`, the machine below, in the book that the operations before it lead to (`draft`). Their
   first questions were asked ahead, before the sample had the lane.
4. At the end of the run, `final_test` asks those cases once more whose skills have got competition since.

The machine is in `operation`, its states are in `states`, and this is all that can happen::

    written -> untried    it has no case, or will not be applied anyway (`leakage_guard`)
    written -> joined     another sample has taught the same meanwhile: that skill gets the cases
    written -> tried      its question was asked with its text alone (`asking`, `texts`)
    tried   -> passed     its text passes, or a better one of the reflector, or nothing can judge the answer
    tried   -> failed     no such text passes
    failed  -> passed     it passes with the worked example of its case
    failed  -> pending    it does not: it waits for a second run or a person, and no agent is shown it
    failed  -> kept       it does not, and `unproven="keep"`
    failed  -> dropped    it does not, and `unproven="drop"`
    passed  -> kept       it breaks no case of the skills that it competes with (`regression`)
    passed  -> breaks     such a case fails twice with it, and passes twice without it
    breaks  -> kept       a worked example, on it or on the other skill, lets both pass
    breaks  -> dropped    none does

`prover` asks all questions: `CaseProver`. `ace.steps` has `KnownStep` and `ProveStep`, which call this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.proof.prover import PROVE_ROLE, CaseOutcome, CaseProver

__all__ = ["PROVE_ROLE", "CaseOutcome", "CaseProver"]

__getattr__, __dir__ = lazy_exports(__name__, {"PROVE_ROLE": "prover", "CaseOutcome": "prover", "CaseProver": "prover"})
