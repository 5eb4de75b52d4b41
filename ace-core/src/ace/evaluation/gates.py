"""`CaseGate`, which runs the cases of the skills that a batch affects, and `AllGates`, which combines gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, final

from ace._internal.arguments import checked_class, whole_number, with_method
from ace.evaluation.counters import CounterGate
from ace.proof import CaseProver
from ace.protocols.gate import GateVerdict
from ace.retrieval import MeaningRanker
from ace.skill import Skill, join_cases

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, Retrieval, SkillbookReader
    from ace.skill import SkillCase
    from ace.updates import UpdateBatch, UpdateOperation

__all__ = ["AllGates", "CaseGate"]

CASE_GATE_ROLE: Final = "CaseGate"
"""The role under which the calls of the gate are counted and recorded."""

_SIMILAR: Final = 2
"""How many of the skills most similar to a new text are affected by it."""


@final
@checked_class
class AllGates:
    """Accepts a batch only if every gate accepts it. The gates are asked in order, up to the first that refuses.

    Args:
        gates: At least one gate. Put those that do not call a model first.

    Raises:
        ValueError: There are no gates.
        TypeError: One of them has no method `judge`.

    Example:
        >>> from ace import Skillbook
        >>> from ace.updates import UpdateBatch
        >>> AllGates([CounterGate(), CounterGate()]).judge(skillbook=Skillbook(), batch=UpdateBatch()).reason
        'CounterGate: nothing to do'
    """

    def __init__(self, gates: Sequence[GateLike]) -> None:
        if not gates:
            raise ValueError("gates must contain at least one gate")
        for place, gate in enumerate(gates):
            with_method(f"gates[{place}]", gate, "judge")
        self.gates = tuple(gates)

    def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> GateVerdict:
        """Judge a batch by all gates.

        Args:
            skillbook: The book as it is.
            batch: The operations that would be applied, in order.
        """
        before: dict[str, float] = {}
        after: dict[str, float] = {}
        reasons = []
        for gate in self.gates:
            verdict = gate.judge(skillbook=skillbook, batch=batch)
            before |= verdict.before
            after |= verdict.after
            reason = f"{type(gate).__name__}: {verdict.reason}"
            if not verdict.accepted:
                return GateVerdict(False, reason, before, after)
            reasons.append(reason)
        return GateVerdict(True, "; ".join(reasons), before, after)


@dataclass(slots=True)
class _Counts:
    """How many cases pass and fail, before and after the batch."""

    before: dict[str, float] = field(default_factory=lambda: {"passed": 0, "failed": 0})
    after: dict[str, float] = field(default_factory=lambda: {"passed": 0, "failed": 0})
    broken: int = 0
    fixed: int = 0
    failing: int = 0
    """How many cases of the skills that the batch changes or adds fail before it."""

    def add(self, before: bool | None, after: bool | None, *, is_own: bool) -> None:
        for counts, passed in ((self.before, before), (self.after, after)):
            if passed is not None:
                counts["passed" if passed else "failed"] += 1
        self.broken += before is True and after is False
        self.fixed += before is False and after is True
        self.failing += is_own and before is False


@final
@checked_class
class CaseGate:
    """Accepts a batch if it breaks no case of the skills that it affects, and fixes a failing case, if there is one.

    The agent answers the cases with the current book, and with the book after the batch. The cases are those of the
    skills that the batch changes or adds, and of the skills most similar to a new text; the latter can only break. A
    case whose prompt has the same skills both times is asked only once. This measures the skills on the questions that
    taught them, not on other questions.

    If none of these skills has a case, the batch is judged by its counters, see `CounterGate`.

    Args:
        agent: Answers the questions; its `generate` may be `async def`. Its calls count towards `max_cost` of the run,
            under the role `CaseGate`.
        judge: A client that answers the checks of kind `judge`; without one, cases with such checks are not asked.
        environments: The environments for checks of kind `environment`, by name.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        max_cases: The maximum number of cases to ask per batch; those that passed last time come first.

    Raises:
        TypeError: The agent has no method `generate`.
        ValueError: `max_cases` is below 1.

    Example:
        >>> from ace import Skillbook
        >>> from ace.outputs import AgentOutput
        >>> from ace.skill import CaseCheck, SkillCase
        >>> from ace.updates import UpdateBatch, UpdateOperation
        >>> class Parrot:
        ...     def generate(self, *, question, context, skillbook, **kwargs):
        ...         rules = [skill.content for skill in skillbook.skills()]
        ...         return AgentOutput(reasoning="", final_answer=" ".join(rules))
        >>> book = Skillbook()
        >>> skill = book.add_skill("tides", "High water is at 14h30.")
        >>> _ = book.put_cases(skill.id, [SkillCase.make("High water?", CaseCheck("contains", "14h30"))])
        >>> batch = UpdateBatch(operations=[UpdateOperation("REMOVE", skill_id=skill.id)])
        >>> CaseGate(Parrot()).judge(skillbook=book, batch=batch).reason
        '1 case that passed fails'
    """

    def __init__(
        self,
        agent: AgentLike,
        *,
        judge: AnyLLMClient | None = None,
        environments: Mapping[str, TaskEnvironment] | None = None,
        retrieval: Retrieval | None = None,
        max_cases: int = 10,
    ) -> None:
        self._prover = CaseProver(
            agent, judge=judge, environments=environments, retrieval=retrieval, role=CASE_GATE_ROLE
        )
        self.max_cases = whole_number("max_cases", max_cases, of="cases")
        self._counters = CounterGate()
        self._ranker = MeaningRanker()

    def judge(self, *, skillbook: SkillbookReader, batch: UpdateBatch) -> GateVerdict:
        """Judge a batch by the cases of the skills that it affects.

        Args:
            skillbook: The book as it is.
            batch: The operations that would be applied, in order.

        Raises:
            LLMCallError: The model could not be reached.
        """
        skills = list(skillbook.skills())
        after, affected = _after(skills, batch.operations)
        cases = self._cases(skills, after, affected, batch.operations)
        if not cases:
            verdict = self._counters.judge(skillbook=skillbook, batch=batch)
            return GateVerdict(verdict.accepted, f"no cases; {verdict.reason}", verdict.before, verdict.after)
        counts = _Counts()
        for case, is_own in cases:
            before = self._prover.outcome(case, skills).passed
            counts.add(before, self._prover.outcome(case, after).passed, is_own=is_own)
        accepted, reason = _decided(counts, len(cases))
        return GateVerdict(accepted, reason, counts.before, counts.after)

    def _cases(
        self,
        skills: Sequence[Skill],
        after: Sequence[Skill],
        affected: Mapping[str, None],
        operations: Sequence[UpdateOperation],
    ) -> list[tuple[SkillCase, bool]]:
        """Return the cases to ask, those that have passed before first, and whether they are of an affected skill."""
        with_cases = [skill for skill in skills if skill.cases]
        nearest: dict[str, None] = dict(affected)
        for operation in operations:
            if operation.type in ("ADD", "UPDATE") and operation.content and with_cases:
                scores = zip(self._ranker(operation.content, with_cases), with_cases, strict=True)
                similar = sorted(((score, skill.id) for score, skill in scores if score > 0), reverse=True)
                nearest |= dict.fromkeys(id for _, id in similar[:_SIMILAR])
        found: dict[str, tuple[SkillCase, bool]] = {}
        for skill in (*skills, *after):
            if skill.id in nearest:
                found |= {case.id: (case, skill.id in affected) for case in skill.cases}
        ordered = sorted(found.values(), key=lambda pair: pair[0].last_result != "passed")
        return ordered[: self.max_cases]


def _decided(counts: _Counts, asked: int) -> tuple[bool, str]:
    if counts.broken:
        return False, f"{_cases_that(counts.broken, 'passed fail')}"
    if counts.failing and not counts.fixed:
        return False, f"{_cases_that(counts.failing, 'failed still fail')}"
    if counts.fixed:
        return True, f"{_cases_that(counts.fixed, 'failed pass', third='passes')}"
    passed = f"{int(counts.after['passed'])} of {asked}"
    return True, f"{passed} case passes, as before" if asked == 1 else f"{passed} cases pass, as before"


def _cases_that(number: int, what: str, *, third: str = "fails") -> str:
    """Return such as `1 case that passed fails`, `2 cases that passed fail`."""
    if number != 1:
        return f"{number} cases that {what}"
    return f"1 case that {what.rpartition(' ')[0]} {third}"


def _after(skills: Sequence[Skill], operations: Sequence[UpdateOperation]) -> tuple[list[Skill], dict[str, None]]:
    """Return the skills after the operations, and the ids of those that they change, remove or add."""
    now = {skill.id: skill for skill in skills}
    affected: dict[str, None] = {}
    for number, operation in enumerate(operations, 1):
        id = operation.skill_id or ""
        if operation.type == "ADD" and operation.content and operation.content.strip():
            id = f"new-{number:05d}"
            section = operation.section.strip() or "general"
            now[id] = Skill(id, section, operation.content, cases=tuple(operation.cases))
        elif id not in now or operation.type == "TAG":
            continue
        elif operation.type == "REMOVE":
            del now[id]
        elif operation.type == "UPDATE":
            if operation.content is not None and not operation.content.strip():
                continue  # the skillbook skips it
            skill = now[id]
            content = skill.content if operation.content is None or skill.pinned else operation.content
            now[id] = skill.replace(content=content, cases=join_cases(skill.cases, operation.cases))
        affected[id] = None
    return list(now.values()), affected
