"""The proofs of the operations of one sample: which texts are tried, what is asked, and which operations are applied.

An operation with cases takes these states, in this order:

    tried      its text is asked about alone: first as the role wrote it, then as the reflector rewrites it, then with
               the worked example; the first text that passes, or that nothing can judge, is taken
    compared   cases of skills that compete with it are asked in the book that holds it
    kept       it is applied with the results of its cases
    pending    no text has passed: it is applied with the text of the role and the reason, and shown to no agent
    dropped    it breaks another case, or no text has passed and failing skills are dropped; the history says why
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ace.calls.calling import Calling, call_reflector
from ace.calls.model_calls import call_scope, current_call_scope
from ace.calls.sample_context import needed, stop_if_cancelled
from ace.cases import missing_values
from ace.cases.recoveries import call_lacks, shows_failed_call
from ace.cases.values import competes, inverted_number, tokens, with_example
from ace.context import ACEStepContext
from ace.proof.lookup import case_holders
from ace.proof.prover import CaseOutcome, CaseProver
from ace.proof.trace_facts import holds_values, known_cases, known_of_task, sample_cases, values_to_hold, was_corrected
from ace.retrieval import LexicalRanker
from ace.skill import Skill, SkillCase, join_cases
from ace.updates import UpdateOperation

if TYPE_CHECKING:
    from ace.proof.leakage_guard import LeakageGuard
    from ace.protocols.roles import ReflectorLike
    from ace.skill import Unproven

__all__ = ["BatchProofs", "ProofNote", "ProofSettings"]

logger = logging.getLogger(__name__)

_NEIGHBOURS: Final = 20
"""The number of similar skills whose cases a new skill may be compared with; in larger books, the others share too few
words with it."""


@dataclass(frozen=True, slots=True)
class ProofSettings:
    """What `ProveStep` was created with, as far as the proofs of a sample need it; see there."""

    prover: CaseProver
    reflector: ReflectorLike | None
    guard: LeakageGuard | None
    retries: int
    regression_cases: int
    calls: int
    """The maximum number of calls for one operation, without the final test."""
    unproven: Unproven


@dataclass(frozen=True, slots=True)
class ProofNote:
    """The outcome of the proof of one operation, for `ApplyStep`, which knows the id of a new skill."""

    operation: UpdateOperation
    """The operation in the batch."""
    passed: bool | None
    """Whether its case passes; None if it was not asked or could not be judged."""
    before: str
    """The answer without the operation."""
    after: str
    """The answer with it."""
    retries: int
    """The number of other texts tried."""
    reason: str = ""
    """Why the operation is dropped; empty if it is kept."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of trying one text of an operation."""

    text: str
    skills: Sequence[Skill]
    """The book with the operation."""
    skill: Skill
    """The skill that results from the operation."""
    passed: bool | None
    answer: str = ""
    """The last answer."""
    outcomes: Mapping[str, CaseOutcome] = field(default_factory=dict)
    """The outcomes of the cases that were asked, by id."""
    problem: str = ""
    """Why it failed, for the reflector and for the person who reviews the skill."""


class BatchProofs:
    """The proofs of the operations that one sample has led to, in their order.

    Invariant: `skills` is what the book will hold when the operations so far have been applied. Nothing else is
    written while the sample holds the lane.

    Args:
        settings: The prover, and what the step was created with.
        calling: How the agent is called.
        ctx: The context of the sample.
        workers: How many questions that do not depend on each other are asked at once.
    """

    def __init__(self, settings: ProofSettings, calling: Calling, ctx: ACEStepContext, workers: int) -> None:
        self._settings = settings
        self._workers = workers
        self._prover = settings.prover
        self._calling = calling
        self._ctx = ctx
        self.skills: Sequence[Skill] = list(needed(ctx.skillbook, "skillbook", self).skills())
        self._ids = {skill.id for skill in self.skills}
        self.operations: list[UpdateOperation] = []
        self.notes: list[ProofNote] = []
        self.asked: dict[str, str] = {}
        """The setting in which each case was last asked, by id; empty if it was not asked."""
        self._made = 0

    async def ask_ahead(self, operations: Sequence[UpdateOperation]) -> None:
        """Ask the first question of each operation, with its text alone, at once.

        These are the questions that do not depend on what other operations and samples lead to. The prover remembers
        the outcomes, so `prove` does not ask them again.

        Args:
            operations: All operations of the sample, in their order.
        """
        values = Counter(frozenset(values_to_hold(operation.cases[0])) for operation in operations if operation.cases)
        works = []
        for operation in operations:
            if not operation.cases or not self._is_tried(operation):
                continue
            case = operation.cases[0]
            # A second operation with the same values may only add its case to the skill of the first one.
            if values[frozenset(values_to_hold(case))] > 1 or self._learned_meanwhile(operation) is not None:
                continue
            text = next(_texts_of(operation))
            _, skill = self._with(operation, text, ())
            cases = [case for case in operation.cases[: self._workers] if self._prover.can_judge(case)]
            if not any(_uncovered(text, case) for case in cases):
                works += [partial(self._asked, case, _by_itself(skill)) for case in cases]
        # `prove` numbers the new skills again, so that their ids do not depend on what was asked ahead.
        self._made = 0
        await self._calling.each(works, self._workers)

    async def prove(self, operation: UpdateOperation) -> None:
        """Prove an operation, and add it to `operations` in the form in which it is to be applied."""
        if operation.type == "REMOVE":
            self.skills = [skill for skill in self.skills if skill.id != operation.skill_id]
        if not self._is_tried(operation):
            self.operations.append(operation)
        elif not operation.cases:
            self.skills, _ = self._with(operation, operation.content or "", ())
            self.operations.append(operation)
        # Samples are reflected on concurrently, so an overlapping one may have taught the same. Only here, in the lane,
        # is the book current enough to tell.
        elif (knows := self._learned_meanwhile(operation)) is not None:
            self._join(knows, operation.cases)
        else:
            await self._tried(operation)

    def join_known(self) -> None:
        """Add the cases whose answers `KnownStep` found in the skillbook to the skills that know them."""
        known = known_cases(self._ctx)
        for case in sample_cases(self._ctx):
            if case.id not in known:
                continue
            skill = next((skill for skill in self.skills if skill.id == known[case.id] and skill.is_active), None)
            if skill is None:
                logger.info("The skill %s, which knew case %s, has been removed since", known[case.id], case.id)
                continue
            answer, text = self._ctx.metadata.get("known_answers", {}).get(case.id, ("", skill.content))
            is_same = text == skill.content
            passed = self._prover.judged(case, True, answer) if is_same else case
            self.skills = _replaced(self.skills, skill.replace(cases=join_cases(skill.cases, (passed,))))
            seen = self._ctx.metadata.get("known_seen", {}).get(case.id)
            # If the skill had another text when it was asked, the final test asks again.
            self.asked[case.id] = (seen or self._prover.setting(case, self.skills)) if is_same else ""
            self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=(passed,)))
            self.operations.append(UpdateOperation("TAG", skill_id=skill.id, metadata={"helpful": 1}))
            self.notes.append(ProofNote(self.operations[-2], True, case.wrong, passed.answer, 0))

    def _is_tried(self, operation: UpdateOperation) -> bool:
        """Return whether an operation writes a text that can be applied.

        What `ApplyStep` will reject or report is passed on untried, so that the history says why.
        """
        if operation.type not in ("ADD", "UPDATE") or not operation.content or operation.pending:
            return False
        return (operation.type == "ADD" or self._old(operation) is not None) and not self._is_guarded(operation)

    async def _tried(self, operation: UpdateOperation) -> None:
        """Try the texts of an operation, and keep the first one that does not fail."""
        old = self._old(operation)
        case = operation.cases[0]
        retries = -1
        for text in _texts_of(operation):
            attempt = await self._attempt(operation, text)
            retries += 1
            if attempt.passed is not False:
                break
        written = attempt  # what the role wrote, which a failed proof does not change
        # Where only a judge can tell, each further text costs three calls, and its verdict says little about the next.
        can_retry = self._settings.reflector is not None and case.check.kind != "judge"
        for retry in range(self._settings.retries if can_retry else 0):
            problem = attempt.problem or _narrowness(attempt.text, case)
            if not problem:
                break
            better = await self._better_text(operation, attempt, problem, retry)
            if not better or better in (written.text, attempt.text) or self._is_guarded(operation, better):
                break
            again = await self._attempt(operation, better)
            retries += 1
            if again.passed is not False or attempt.passed is False:
                attempt = again
        # Last, although it passes most often, because a rule without an example covers more tasks.
        longer = with_example(written.text, case)
        if attempt.passed is False and longer != written.text and not self._is_guarded(operation, longer):
            again = await self._attempt(operation, longer)
            retries += 1
            attempt = again
        if attempt.passed is False:
            self._fail(operation, written, attempt, retries)
            return
        broken = await self._broken_by(operation, old, attempt)
        if broken is not None:
            repaired = await self._repaired(operation, attempt, broken)
            if repaired is None:
                effect = f"with it, {broken.case.question!r} was answered {self._prover.hidden(broken.answer)!r}"
                self._drop(operation, attempt, retries, f"it breaks case {broken.case.id}: {effect}")
                return
            attempt = repaired
        self._keep(operation, old, attempt, retries)

    async def _attempt(self, operation: UpdateOperation, text: str) -> _Attempt:
        """Try one text alone: first whether it covers its cases, then the answers to them.

        As many cases as there are workers are asked at once, and no more after one that fails. How the skill does
        beside others is left to the final test, because it depends on what is learned later too.
        """
        skills, skill = self._with(operation, text, operation.cases)
        tried = partial(_Attempt, text, skills, skill)
        if problem := next(filter(None, (_uncovered(text, case) for case in operation.cases)), ""):
            return tried(False, problem=problem)
        cases = [case for case in operation.cases if self._prover.can_judge(case)]
        outcomes: dict[str, CaseOutcome] = {}
        for part in _parts(cases, self._workers):
            for outcome in await self._outcomes(part, _by_itself(skill)):
                outcomes[outcome.case.id] = outcome
                self.asked[outcome.case.id] = self._prover.setting(outcome.case, [skill])
            failed = next((outcome for outcome in outcomes.values() if outcome.passed is False), None)
            if failed is not None:
                return tried(False, failed.answer, outcomes, _problem_with(failed.case, failed.answer))
        answer = next((outcome.answer for outcome in reversed(outcomes.values())), "")
        is_judged = len(outcomes) == len(operation.cases) and all(outcome.passed for outcome in outcomes.values())
        return tried(True if is_judged else None, answer, outcomes)

    async def _broken_by(self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt) -> CaseOutcome | None:
        """Return the outcome of a case that has passed so far and that the change breaks; None if it breaks none.

        Only cases with which the change competes are asked. A model's answers vary, so a case counts as broken only if
        it fails twice with the change and passes twice without it. One that fails without it too is recorded.
        """
        # An UPDATE may break the cases of its own skill, so one is asked even if no call is left.
        left = self._settings.calls - len(attempt.outcomes)
        most = min(self._settings.regression_cases, max(left, 0 if old is None else 1))
        due = self._competing_cases(operation, old, attempt, most)
        for part in _parts(list(due), self._workers):
            # In the order of similarity, although they were asked at once: the first broken one decides.
            for outcome in await self._outcomes(part, attempt.skills):
                case = outcome.case
                if outcome.passed is not False:
                    self.asked[case.id] = due[case]
                    continue
                without = await self._asked(case, self.skills)
                if without.passed is False:
                    self._note_failed(without)
                elif await self._is_reproduced(case, attempt.skills):
                    return outcome
                else:
                    self.asked[case.id] = due[case]
                    logger.info("Case %s failed once beside %r, which is not held against it", case.id, attempt.text)
        return None

    async def _is_reproduced(self, case: SkillCase, skills: Sequence[Skill]) -> bool:
        """Return whether a case fails again with a change, and passes again without it."""
        again = await self._asked(case, skills, attempt=2)
        if again.passed is not False:
            return False
        return (await self._asked(case, self.skills, attempt=2)).passed is True

    def _competing_cases(
        self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt, most: int
    ) -> Mapping[SkillCase, str]:
        """Return cases that have passed and with which a change competes, with their settings: first its own ones."""
        others = [skill for skill in self.skills if skill.cases and skill is not old]
        similar = LexicalRanker().best(attempt.text, others, _NEIGHBOURS)
        own = {case.id for case in operation.cases}
        due: dict[SkillCase, str] = {}
        for skill in (*([] if old is None else [old]), *similar):
            for case in skill.cases:
                if len(due) == most:
                    return due
                if case.id in own or case.last_result != "passed" or not self._prover.can_judge(case):
                    continue
                if skill is old or competes(attempt.text, case, [skill.content]):
                    shown = self._prover.shown(case.question, attempt.skills)
                    if any(other.id == attempt.skill.id for other in shown):
                        due[case] = self._prover.setting(case, attempt.skills)
                        own.add(case.id)
        return due

    async def _repaired(self, operation: UpdateOperation, attempt: _Attempt, broken: CaseOutcome) -> _Attempt | None:
        """Return an attempt with a worked example with which a broken case passes again; None if there is none."""
        # The example may restrict the change enough to keep the other skill as it is. Only then is that changed.
        case, text = broken.case, with_example(attempt.text, operation.cases[0])
        if text != attempt.text and not self._is_guarded(operation, text):
            again = await self._attempt(operation, text)
            if again.passed is not False and (await self._asked(case, again.skills)).passed is not False:
                self.asked[case.id] = self._prover.setting(case, again.skills)
                return again
        holders = [skill for skill in self._in_book(case) if skill.id != attempt.skill.id and not skill.pinned]
        if len(holders) != 1:
            return None
        holder = holders[0]
        change = UpdateOperation("UPDATE", skill_id=holder.id, content=with_example(holder.content, case))
        skills = _replaced(attempt.skills, holder.replace(content=change.content))
        if change.content == holder.content or self._is_guarded(dataclasses.replace(change, cases=(case,))):
            return None
        outcome = await self._asked(case, skills)
        if not outcome.passed:
            return None
        # Both skills change in the transaction of the sample, so no reader finds the case broken in between.
        passed = self._prover.judged(case, True, outcome.answer)
        for other in holder.cases:
            self.asked[other.id] = ""  # the final test asks it with the new text
        self.asked[case.id] = self._prover.setting(case, skills)
        self.operations.append(dataclasses.replace(change, cases=(passed,)))
        repaired = holder.replace(content=change.content, cases=join_cases(holder.cases, (passed,)))
        return dataclasses.replace(attempt, skills=_replaced(skills, repaired))

    def _note_failed(self, outcome: CaseOutcome) -> None:
        """Record that a case which has passed before fails with the book as it is, whatever is learned now."""
        case = outcome.case
        logger.info("Case %s failed before this change: %r was answered %r", case.id, case.question, outcome.answer)
        self.asked[case.id] = ""  # the final test asks it, and may give its skill the example
        failed = self._prover.judged(case, False, outcome.answer)
        for skill in self._in_book(case):
            self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=(failed,)))

    def _in_book(self, case: SkillCase) -> list[Skill]:
        """Return the skills with a case that are in the book already, so that an operation can name them."""
        return [
            skill
            for skill in self.skills
            if skill.id in self._ids and any(known.id == case.id for known in skill.cases)
        ]

    async def _outcomes(self, cases: Sequence[SkillCase], skills: Sequence[Skill]) -> list[CaseOutcome]:
        """Ask the questions of different cases at once, with the same skills; the outcomes are in their order."""
        return await self._calling.each([partial(self._asked, case, skills) for case in cases], self._workers)

    async def _asked(self, case: SkillCase, skills: Sequence[Skill], *, attempt: int = 1) -> CaseOutcome:
        stop_if_cancelled()
        return await self._prover.outcome_with(self._calling, case, skills, attempt=attempt)

    async def _better_text(self, operation: UpdateOperation, attempt: _Attempt, problem: str, retry: int) -> str:
        """Ask the reflector for another text, and tell it the problem of this one."""
        reflector = self._settings.reflector
        if reflector is None:
            return ""
        from ace.outputs import AgentOutput

        case = operation.cases[0]
        scope = current_call_scope()
        # A scope of its own, so that a resumed run replays the answer to exactly this retry.
        sample = f"{scope.sample}/case {case.id}/retry {retry + 1}"
        feedback = f"{case.correction}\n\nThe rule {attempt.text!r} was tried. {problem} Write a better rule."
        with call_scope(dataclasses.replace(scope, sample=sample).asked_by("Reflector")):
            reflection = await call_reflector(
                self._calling,
                reflector,
                question=case.question,
                agent_output=AgentOutput(reasoning="", final_answer=attempt.answer or case.wrong),
                skillbook=needed(self._ctx.skillbook, "skillbook", self),
                ground_truth=case.expected or None,
                feedback=feedback.strip(),
                trace={
                    "question": case.question,
                    "context": case.context,
                    "answer": attempt.answer or case.wrong,
                    "ground_truth": case.expected or None,
                    "feedback": feedback.strip(),
                },
            )
        return next((item.learning for item in reflection.extracted_learnings if item.learning.strip()), "")

    def _keep(self, operation: UpdateOperation, old: Skill | None, attempt: _Attempt, retries: int) -> None:
        cases = self._results(operation, attempt)
        # A new text resets the results of the older cases, except those that have passed with it.
        kept = []
        for case in () if old is None else old.cases:
            if case.last_result == "passed" and self.asked.get(case.id) == self._prover.setting(case, attempt.skills):
                kept.append(self._prover.judged(case, True, case.answer))
            elif self._prover.can_judge(case):
                self.asked[case.id] = ""  # the final test asks it with the new text
        metadata = dict(operation.metadata)
        if attempt.passed and operation.type == "ADD":
            metadata["helpful"] = max(1, _count(metadata.get("helpful")))
        done = dataclasses.replace(operation, content=attempt.text, cases=join_cases(kept, cases), metadata=metadata)
        self.operations.append(done)
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(done, attempt.passed, operation.cases[0].wrong, after, retries))
        proven = attempt.skill.replace(cases=join_cases(() if old is None else old.cases, done.cases))
        self.skills = _replaced(attempt.skills, proven)

    def _fail(self, operation: UpdateOperation, written: _Attempt, attempt: _Attempt, retries: int) -> None:
        """Let an operation with the text of the role wait for a second run or a person, or keep or drop it."""
        if self._settings.unproven == "drop":
            self._drop(operation, attempt, retries, "the case that taught it fails with it")
            return
        is_pending = self._settings.unproven == "pending"
        reason = self._prover.hidden(f"the case that taught it fails with it. {written.problem}")
        cases = self._results(operation, written)
        if is_pending:
            for case in operation.cases:
                self.asked.pop(case.id, None)  # no agent is shown the skill, so the final test does not ask
        else:
            self.skills = written.skills
        pending = reason if is_pending else ""
        done = dataclasses.replace(operation, content=written.text, cases=cases, pending=pending)
        self.operations.append(done)
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(done, False, operation.cases[0].wrong, after, retries))

    def _results(self, operation: UpdateOperation, attempt: _Attempt) -> tuple[SkillCase, ...]:
        """Return the cases of an operation with the results of an attempt."""
        found = {
            id: self._prover.judged(outcome.case, outcome.passed, outcome.answer)
            for id, outcome in attempt.outcomes.items()
        }
        return tuple(found.get(case.id, case) for case in operation.cases)

    def _drop(self, operation: UpdateOperation, attempt: _Attempt, retries: int, reason: str) -> None:
        for case in operation.cases:
            self.asked.pop(case.id, None)
        self.operations.append(operation)  # so that the history lists it as skipped
        wrong = operation.cases[0].wrong
        after = self._prover.hidden(attempt.answer)
        self.notes.append(ProofNote(operation, attempt.passed, wrong, after, retries, reason))

    def _join(self, skill: Skill, cases: Sequence[SkillCase]) -> None:
        """Add cases to a skill that has the same deciding values; only the final test asks them."""
        for case in cases:
            if self._prover.can_judge(case):
                self.asked[case.id] = ""
        self.operations.append(UpdateOperation("UPDATE", skill_id=skill.id, cases=tuple(cases)))
        self.skills = _replaced(self.skills, skill.replace(cases=join_cases(skill.cases, cases)))

    def _learned_meanwhile(self, operation: UpdateOperation) -> Skill | None:
        """Return a skill that an overlapping sample has added and whose case has the same deciding values."""
        if operation.type != "ADD" or "case_holders" not in self._ctx.metadata:
            return None
        for skill in self.skills:
            if all(self._is_new_holder(skill, case) for case in operation.cases):
                return skill
        return None

    def _is_new_holder(self, skill: Skill, case: SkillCase) -> bool:
        values = set(values_to_hold(case))
        return (
            was_corrected(case)
            and bool(values)
            and skill.id not in case_holders(self._ctx).get(case.id, ())
            and holds_values(skill, tuple(values))
            and any(set(values_to_hold(other)) == values for other in skill.cases)
            and not any(other.id == case.id for made in self.operations for other in made.cases)
        )

    def _with(self, operation: UpdateOperation, text: str, cases: Sequence[SkillCase]) -> tuple[Sequence[Skill], Skill]:
        """Return the book with an operation applied, and the skill that results from it."""
        old = self._old(operation)
        if old is not None:
            changed = old.replace(content=text, section=operation.section or old.section)
            changed = changed.replace(cases=join_cases(old.cases, cases))
            return _replaced(self.skills, changed), changed
        self._made += 1
        added = Skill(f"new-{self._made:05}", operation.section, text, cases=tuple(cases))
        return [*self.skills, added], added

    def _old(self, operation: UpdateOperation) -> Skill | None:
        """Return the skill that an UPDATE concerns, if it is there."""
        if operation.type != "UPDATE":
            return None
        return next((skill for skill in self.skills if skill.id == operation.skill_id), None)

    def _is_guarded(self, operation: UpdateOperation, text: str | None = None) -> bool:
        """Return whether `ApplyStep` will reject an operation, with a text or with its own one."""
        guard = self._settings.guard
        if guard is None:
            return False
        known = known_of_task(self._ctx)
        changed = operation if text is None else dataclasses.replace(operation, content=text)
        return guard.problem_with(changed, known.answers, feedback=known.feedback) is not None


def _texts_of(operation: UpdateOperation) -> Iterator[str]:
    """Yield the texts of an operation that are tried: without the answer to its own case at the end, then as it is.

    A text such as "Round boats up: 4" is right for the case that taught it, and the 4 is copied for other questions. A
    value that the rule needs is needed for the proof too, which then fails without it.
    """
    text = operation.content or ""
    answer = operation.cases[0].expected.strip(" .") if operation.cases else ""
    # Only a number that the question leads to is an answer to this one question.
    if any(map(str.isdigit, answer)) and any(map(str.isdigit, operation.cases[0].question)):
        shorter = re.sub(rf"\s*(?:[:=→]|->|=>)\s*{re.escape(answer)}[\s.]*\Z", ".", text)
        if shorter != text:
            yield shorter
    yield text


def _uncovered(text: str, case: SkillCase) -> str:
    """Describe what a rule lacks, inverts or must not show; empty if there is nothing of the kind."""
    if shows_failed_call(text, case):
        return "It shows the call that failed."
    if not was_corrected(case):
        return ""
    # What is left of a code without the number of its case decides nothing: no text is held back for it.
    said = {word.lower() for word in tokens(case.correction)}
    missing = [value for value in missing_values(text, case) if said.issuperset(map(str.lower, tokens(value)))]
    if missing:
        return f"It lacks {', '.join(missing)}."
    number = inverted_number(text, case)
    return f"It gives the wrong answer for its condition on {number}." if number else ""


def _narrowness(text: str, case: SkillCase) -> str:
    """Describe what a rule contains that only applies to its case; empty if there is nothing of the kind."""
    if not was_corrected(case):
        return ""
    said = {word.lower() for word in tokens(case.correction)}
    names = [word for word in tokens(case.question)[1:] if word[:1].isupper() and word[1:2].islower()]
    answer = [word for word in tokens(case.expected) if any(character.isdigit() for character in word)]
    in_text = {word.lower() for word in tokens(text)}
    quoted = [word for word in (*names, *answer) if word.lower() in in_text - said]
    return f"It contains {', '.join(quoted)}, which only applies to this case." if quoted else ""


def _problem_with(case: SkillCase, answer: str) -> str:
    if case.check.kind == "call":
        return f"With it the answer {answer!r} {call_lacks(case.check.value, answer)}."
    right = case.expected or " ".join(case.check.value.splitlines())
    return f"With it the task was answered {answer!r}; right is {right!r}."


def _by_itself(skill: Skill) -> list[Skill]:
    """Return a skill as the only one of a book, without its cases. A new one has the same id whenever it is tried."""
    id = "new-00001" if skill.id.startswith("new-") else skill.id
    return [skill.replace(id=id, cases=())]


def _parts(cases: Sequence[SkillCase], size: int) -> list[Sequence[SkillCase]]:
    """Return the cases in parts of at most this size."""
    return [cases[place : place + size] for place in range(0, len(cases), size)]


def _replaced(skills: Sequence[Skill], changed: Skill) -> list[Skill]:
    return [changed if skill.id == changed.id else skill for skill in skills]


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
