"""Proofs of skills: before a lesson is kept, an agent answers the question that taught it, with the lesson.

The lane of a skillbook is held by one sample at a time, from its tags to its changes. The order of events, from a trace
to a proven skill:

1. `trace_facts` keeps what the trace of a sample says, and `judged_cases` makes its corrections into cases.
2. `lookup` asks the cases that a skill may already answer. What passes is known, and nothing is learned from it.
3. The reflector and the skill manager write operations. `ace.steps.update` makes those pending for which nothing but
   the model speaks: they have no evidence, and are not proven.
4. While the sample holds the lane, `batch` proves the other operations, one after the other: each is one
   `OperationProof`, whose states are below, in the skillbook with the changes of the operations before it (`draft`).
   Their first questions were already asked while the sample waited for the lane.
5. At the end of the run, outside the lane, `final_test` asks the cases whose skills now have competitors once more. If
   one fails, a worked example is added to its skill, and the case is asked again.

`operation` moves an operation from state to state, and these are all the transitions::

    written -> untried    it writes no text, has no case, is already pending, or will not be applied (`leakage_guard`)
    written -> joined     a sample that overlapped with it has taught the same: that skill gets the cases
    written -> tried      its text was compared with its cases, and then asked alone (`asking`, `texts`)
    tried   -> passed     its text passes, or a better one of the reflector, or nothing can judge the answer
    tried   -> failed     no such text passes
    failed  -> passed     it passes with the worked example of its case
    failed  -> pending    it does not: it waits for a second run or a person, and no agent is shown it
    failed  -> kept       it does not, and `unproven="keep"`
    failed  -> dropped    it does not, and `unproven="drop"`
    passed  -> kept       it breaks none of the cases with which it competes and that were asked (`regression`)
    passed  -> breaks     such a case fails twice with it, and passes twice without it
    breaks  -> kept       a worked example, on it or on the other skill, lets both pass
    breaks  -> dropped    none does

A failed change of an active skill never becomes pending: `ace.skillbook` refuses it and keeps the old text.
`ace.steps` has `KnownStep` and `ProveStep`, which call this package.

What decides: `ace.cases.answer_passes` whether one answer passes, as far as code can tell; `CaseProver` in `prover`,
which asks all questions, has a model judge the rest; `Questions.alone` in `asking`, whether a text passes its cases;
`OperationProof` in `operation`, whether the operation is applied. A skill with such results is called proven by
`Skill.proof`; where nothing could judge the answer, the operation passes, and the skill stays unproven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.proof.prover import PROVE_ROLE, CaseOutcome, CaseProver

__all__ = ["PROVE_ROLE", "CaseOutcome", "CaseProver"]

__getattr__, __dir__ = lazy_exports(__name__, {"PROVE_ROLE": "prover", "CaseOutcome": "prover", "CaseProver": "prover"})
