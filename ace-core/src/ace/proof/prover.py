"""Proofs of skills: an agent is asked the question of a case with chosen skills, and its answer is checked strictly."""

from __future__ import annotations

import functools
import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ace._internal.arguments import checked_class, with_method
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, call_agent, call_environment, finished
from ace.calls.model_calls import CallScope, call_scope, current_call_scope, redactor_for
from ace.cases import answer_passes, worked_example
from ace.cases.values import competes
from ace.context import SelectedSkills, SkillbookView
from ace.environments import Sample
from ace.protocols.errors import EmptyAnswerError, UnusableAnswerError, encodable
from ace.protocols.roles import ShowsSkills

if TYPE_CHECKING:
    from ace.context import ACESample
    from ace.environments import TaskEnvironment
    from ace.outputs import AgentOutput
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, Retrieval
    from ace.skill import CaseResult, Skill, SkillCase

__all__ = ["PROVE_ROLE", "CaseOutcome", "CaseProver"]

logger = logging.getLogger(__name__)

PROVE_ROLE = "Prove"
"""The role under which the model calls of proofs are counted and recorded."""

_LONGEST_ANSWER = 2000
"""The maximum length of an answer that is stored in a case, in characters."""

_JUDGE_PROMPT = """\
You check whether an answer is right. It may use other words, and need not say more than the question asks. It is not
right if it states another fact, is right only in part, is ambiguous, or names several alternatives.

Question: Where do the keys go?
What is right: They hang on the board in the office.
Answer: On the office's key board.
Verdict: {"difference": "none", "passes": true}

Question: Where do the keys go?
What is right: They hang on the board in the office.
Answer: The keys are put under the mat.
Verdict: {"difference": "the mat instead of the board", "passes": false}

Question: What does a stamp for a letter abroad cost?
What is right: 2 at home, 3 abroad
Answer: It is 2.
Verdict: {"difference": "2 is the price at home", "passes": false}

"""
"""The beginning of the prompt for a judge; the answer to be judged follows in the same form."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """An agent's answer to the question of a case, and whether it passes.

    Example:
        >>> from ace.skill import CaseCheck, SkillCase
        >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
        >>> CaseOutcome(case, "4", True, ("maths-00001",)).passed
        True
    """

    case: SkillCase
    """The case."""
    answer: str
    """The answer; empty if the agent gave no usable one."""
    passed: bool | None
    """Whether it passes the check of the case; None if that could not be judged."""
    shown: tuple[str, ...]
    """The ids of the skills that the agent was shown."""


@checked_class
@final
class CaseProver:
    """Asks an agent the questions of cases with given skills, and checks the answers.

    The same question is asked only once with the same skills; later calls return the outcome from memory. Inside a run
    with a store, the answers are recorded for a resumed run. Thread-safe.

    Args:
        agent: The agent; its `generate` may be `async def`.
        judge: A client that judges the answers about which code cannot tell, such as those to checks of kind `judge`;
            without one they are not judged.
        environments: The environments for checks of kind `environment`, by name; with others they are not judged.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`. Without one, an agent that `ShowsSkills`
            chooses, and any other agent sees all skills that it is given.
        role: The role under which the calls are counted and recorded.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> from ace.skill import CaseCheck, Skill, SkillCase
        >>> class Parrot:
        ...     def generate(self, *, question, context, skillbook, **kwargs):
        ...         return AgentOutput(reasoning="", final_answer=skillbook.skills()[0].content)
        >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))
        >>> CaseProver(Parrot()).outcome(case, [Skill("a-00001", "a", "It is 14h30.")]).passed
        True
    """

    def __init__(
        self,
        agent: AgentLike,
        *,
        judge: AnyLLMClient | None = None,
        environments: Mapping[str, TaskEnvironment] | None = None,
        retrieval: Retrieval | None = None,
        role: str = PROVE_ROLE,
    ) -> None:
        with_method("agent", agent, "generate")
        if judge is not None:
            with_method("judge", judge, "complete_structured", advice="give a client, such as LiteLLMClient(model)")
        self.agent = agent
        self.judge = judge
        self.environments = dict(environments or {})
        self.retrieval = retrieval
        self.role = role
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, int], tuple[str, bool | None]] = {}
        self._samples: dict[str, ACESample] = {}

    @property
    def model(self) -> str:
        """The name of the model that answers, from the client of the agent; empty if it is not known."""
        model = getattr(getattr(self.agent, "llm", None), "model", "")
        return model if isinstance(model, str) else ""

    @property
    def shows_examples(self) -> bool:
        """Whether the agent is one for small models, which show each skill with the worked example of its case."""
        return isinstance(self.agent, ShowsSkills)

    @property
    def chooses(self) -> bool:
        """Whether the agent sees only chosen skills; otherwise it sees the whole book with each question."""
        return self.retrieval is not None or self.shows_examples

    def shown(self, question: str, skills: Sequence[Skill]) -> Sequence[Skill]:
        """Return the skills that the agent would be shown with a question. No model is asked.

        Args:
            skills: The skills, in the order of the book; those that are not active are ignored.
        """
        view = self._chosen(question, skills)
        return list(self.agent.shown_skills(question, view)) if isinstance(self.agent, ShowsSkills) else view.skills()

    def fingerprint(self, question: str, skills: Sequence[Skill]) -> str:
        """Return a hash of the texts that the agent would be shown with a question. No model is asked.

        Args:
            skills: The skills, in the order of the book.
        """
        return self._digest(self.shown(question, skills))

    def setting(self, case: SkillCase, skills: Sequence[Skill]) -> str:
        """Return a hash of the shown texts that can change the answer to a case. No model is asked.

        These are the texts of the skills that have the case, and of those that compete with them: they fit the
        question better, or contain the wrong answer. A case whose setting is the same as when it was asked
        does not have to be asked again.

        Args:
            skills: The skills, in the order of the book.

        Example:
            >>> from ace.skill import CaseCheck, Skill, SkillCase
            >>> from ace.roles import Agent
            >>> from ace.providers import LiteLLMClient
            >>> prover = CaseProver(Agent(LiteLLMClient("gpt-4o-mini")))
            >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))
            >>> own = Skill("a-00001", "a", "The tide is at 14h30.", cases=(case,))
            >>> dogs, tides = Skill("b-00001", "b", "Dogs bark."), Skill("a-00002", "a", "Round high water up.")
            >>> prover.setting(case, [own]) == prover.setting(case, [own, dogs])
            True
            >>> prover.setting(case, [own]) == prover.setting(case, [own, tides])
            False
        """
        own = {skill.id for skill in skills if any(other.id == case.id for other in skill.cases)}
        shown = self.shown(case.question, skills)
        texts = [skill.content for skill in shown if skill.id in own]
        texts += [skill.content for skill in shown if skill.id not in own and competes(skill.content, case, texts)]
        return _hash(texts)

    def can_judge(self, case: SkillCase) -> bool:
        """Return whether an answer to a case can be judged, so that asking its question is worthwhile."""
        if case.check.kind == "environment":
            return case.check.value in self.environments
        return case.check.kind != "judge" or self.judge is not None

    def hidden(self, text: str) -> str:
        """Return a text, such as an answer to be stored, with personal data and keys redacted."""
        return encodable(redactor_for(getattr(self.agent, "llm", None)).redact(text))

    def judged(self, case: SkillCase, passed: bool | None, answer: str) -> SkillCase:
        """Return a case with its result, the model and its answer. The skillbook sets the time when it is written.

        Args:
            passed: Whether it passed; None if that could not be judged, which leaves the case unchanged.
            answer: The answer. It is redacted, and only the beginning of a long one is kept.
        """
        if passed is None:
            return case
        result: CaseResult = "passed" if passed else "failed"
        kept = self.hidden(answer)[:_LONGEST_ANSWER]
        return replace(case, last_result=result, last_run_at="", model=self.model, answer=kept)

    def outcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome:
        """Ask the question of a case with these skills, and check the answer.

        Args:
            skills: The skills to choose from, in the order of the book.

        Raises:
            LLMCallError: The model could not be reached.
            RoleError: The agent takes other arguments, or returned something other than an `AgentOutput`.
        """
        return finished(self.outcome_with(BLOCKING, case, skills))

    async def aoutcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome:
        """Like `outcome`, for asynchronous code.

        Args:
            skills: The skills to choose from, in the order of the book.

        Raises:
            LLMCallError: The model could not be reached.
            RoleError: The agent takes other arguments, or returned something other than an `AgentOutput`.
        """
        return await self.outcome_with(ON_LOOP, case, skills)

    async def outcome_with(
        self, calling: Calling, case: SkillCase, skills: Sequence[Skill], *, attempt: int = 1
    ) -> CaseOutcome:
        """Like `outcome`, for code that works both ways.

        Args:
            calling: How the agent is called: `BLOCKING` from plain code, `ON_LOOP` from asynchronous code.
            skills: The skills to choose from, in the order of the book.
            attempt: With another number, the question is asked again with the same skills.

        Raises:
            LLMCallError: The model could not be reached.
            RoleError: The agent takes other arguments, or returned something other than an `AgentOutput`.
        """
        chosen = await calling.function(functools.partial(self.shown, case.question, skills))
        seen = self._digest(chosen)
        key = (case.id, seen, attempt)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            # An agent that chooses itself is given all skills to choose from, as in a run.
            view = await calling.function(functools.partial(self._chosen, case.question, skills))
            with call_scope(_scope_of(case, seen, self.role, attempt)):
                known = await self._asked(calling, case, view)
            # The model is asked outside of the lock, so two samples may ask the same at once. The first answer counts
            # for both, so that a run does not judge the same case in two ways.
            with self._lock:
                known = self._known.setdefault(key, known)
        answer, passed = known
        return CaseOutcome(case, answer, passed, tuple(skill.id for skill in chosen))

    def _chosen(self, question: str, skills: Sequence[Skill]) -> SelectedSkills:
        """Return the skills that the agent is given: those that the retrieval chooses, or all."""
        view = _view_of(skills)
        return view if self.retrieval is None else _view_of(self.retrieval(question, view))

    def _digest(self, shown: Sequence[Skill]) -> str:
        """Return a hash of the texts that the agent sees of these skills."""
        with_examples = self.shows_examples  # looked up once, because `isinstance` with a protocol is slow
        texts = [
            f"{skill.content}\n{worked_example(skill.cases[0])}" if with_examples and skill.cases else skill.content
            for skill in shown
        ]
        return _hash(texts)

    def remember(self, case: SkillCase, sample: ACESample) -> None:
        """Let the environment judge further answers to a case with the original sample of the case.

        Without it, the environment gets a sample with the question, the context and the expected answer.

        Args:
            case: The case; ignored if it is not judged by an environment.
        """
        if case.check.kind == "environment":
            with self._lock:
                self._samples[case.id] = sample

    async def _asked(self, calling: Calling, case: SkillCase, view: SkillbookView) -> tuple[str, bool | None]:
        with self._lock:
            known = self._samples.get(case.id)
        sample = known or Sample(case.question, case.context, case.expected or None, id=case.trace_id or None)
        try:
            output = await call_agent(calling, self.agent, case.question, case.context, view, sample=sample)
        except EmptyAnswerError as error:
            output = error.output
        except UnusableAnswerError as error:
            logger.info("The question of case %s got no usable answer: %s", case.id, error)
            return "", False
        return output.final_answer, await self._passes(calling, case, sample, output)

    async def _passes(self, calling: Calling, case: SkillCase, sample: ACESample, output: AgentOutput) -> bool | None:
        match case.check.kind:
            case "environment":
                return await self._environment_says(calling, case, sample, output)
            case "judge":
                return await self._judge_says(calling, case, output.final_answer)
            case _:
                passed = answer_passes(case, output.final_answer)
                return passed if passed is not None else await self._judge_says(calling, case, output.final_answer)

    async def _environment_says(
        self, calling: Calling, case: SkillCase, sample: ACESample, output: AgentOutput
    ) -> bool | None:
        environment = self.environments.get(case.check.value)
        if environment is None:
            return None
        try:
            result = await call_environment(calling, environment, sample, output)
        except Exception as error:
            if case.id in self._samples:
                raise
            # The original sample is not available, and the environment may need more of it than a case contains.
            logger.warning("The environment %s could not judge case %s: %s", case.check.value, case.id, error)
            return None
        correct = result.metrics.get("correct")
        return None if correct is None else correct >= 1

    async def _judge_says(self, calling: Calling, case: SkillCase, answer: str) -> bool | None:
        if self.judge is None:
            return None
        from ace.outputs import CaseVerdict
        from ace.roles.role_answers import usable_answer  # both import pydantic

        fields = {
            "Question": case.question,
            "Context": case.context,
            "What is right": case.expected or (case.check.value if case.check.kind != "judge" else ""),
            "What is wrong": case.wrong,
            "Correction": case.correction,
            "Requirement": case.check.value if case.check.kind == "judge" else "",
            "Answer": answer,
        }
        lines = [f"{title}: {' '.join(text.split())}\n" for title, text in fields.items() if text.strip()]
        prompt = f"{_JUDGE_PROMPT}{''.join(lines)}Verdict:"
        try:
            verdict = await usable_answer(
                calling, self.judge, prompt, CaseVerdict, lambda verdict: None, role=self.role, max_retries=1
            )
        except UnusableAnswerError as error:
            logger.info("The judge of case %s gave no usable verdict: %s", case.id, error)
            return None
        return verdict.passes


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _view_of(skills: Sequence[Skill]) -> SelectedSkills:
    from ace.skillbook.book import Skillbook

    return SelectedSkills(SkillbookView(Skillbook()), [skill for skill in skills if skill.is_active])


def _scope_of(case: SkillCase, seen: str, role: str, attempt: int) -> CallScope:
    """Return the scope in which a case is asked, with separate recorded answers for each set of shown skills."""
    name = f"case {case.id} {seen}" + (f" {attempt}" if attempt > 1 else "")
    scope = replace(current_call_scope(), epoch=0, sample=name, attempts={})
    return scope.asked_by(role)
