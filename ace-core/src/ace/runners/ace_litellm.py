"""`ACELiteLLM`: asking questions and learning with one object."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, final
from weakref import ReferenceType, WeakKeyDictionary, ref

from ace._internal.arguments import checked_arguments, instance_of, sequence_of_steps
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, call_agent, finished
from ace.calls.model_calls import call_scope, current_call_scope
from ace.context import ACESample, SkillbookView
from ace.protocols.llm import Usage
from ace.runners.ace import ACE
from ace.runners.base import save_without_loss
from ace.runners.extra_steps import enabled_extra_steps, extra_step_arguments
from ace.runners.failures import FailedSample
from ace.runners.learning_keywords import LearningOptions
from ace.runners.learning_settings import LearningSettings, client_and_options, client_settings
from ace.runners.open_runs import summed_stats
from ace.runners.run_keywords import RunOptions
from ace.runners.trace_analyser import TraceAnalyser
from ace.skillbook.book import Skillbook
from ace.steps.agent import answer_trace
from ace.traces import AnswerTrace

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.environments import TaskEnvironment
    from ace.outputs import AgentOutput
    from ace.pipeline import SampleResult
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, ReflectorLike, SkillManagerLike
    from ace.runners.base import ACERunner

__all__ = ["ACELiteLLM", "Answer", "FacadeRunners"]


class Answer(str):
    """The answer to one question: a string, with the attributes that learning from feedback needs.

    Keep it to give feedback on it later: `learn_from_feedback("wrong", answer=answer)`. It can be pickled, so a service
    may keep it in its own store, by `id`.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> answer = Answer.of(AgentOutput(reasoning="Two and two.", final_answer="4"), "2+2?", "", Usage(calls=1))
        >>> answer == "4", answer.reasoning, answer.usage.calls
        (True, 'Two and two.', 1)
    """

    id: str
    """A unique name of the answer."""
    question: str
    """The question."""
    context: str
    """The further material that the agent was given; may be empty."""
    reasoning: str
    """The agent's reasoning."""
    skill_ids: tuple[str, ...]
    """The skills that the reasoning cites."""
    usage: Usage
    """What the model calls of this answer have used, including retries; zero if the client does not report it."""

    @classmethod
    def of(cls, output: AgentOutput, question: str, context: str, usage: Usage) -> Self:
        """Return the answer that an agent gave.

        Args:
            output: What the agent returned.
            context: The further material that the agent was given.
            usage: What the model calls have used.
        """
        answer = cls(output.final_answer)
        answer.id = uuid.uuid4().hex
        answer.question, answer.context = question, context
        answer.reasoning, answer.skill_ids = output.reasoning, tuple(output.skill_ids)
        answer.usage = usage
        return answer

    def trace(self, feedback: str, ground_truth: str | None) -> AnswerTrace:
        """Return the trace of this answer that a reflector learns from.

        Args:
            feedback: What was good or bad about it.
            ground_truth: The right answer, if it is known.
        """
        from ace.outputs import AgentOutput

        output = AgentOutput(reasoning=self.reasoning, final_answer=str(self), skill_ids=list(self.skill_ids))
        return AnswerTrace(answer_trace(self.question, self.context, ground_truth, output), feedback=feedback)


def _learning_settings(called: str, options: dict[str, Any]) -> LearningSettings:
    """Return the settings of learning in the options of a facade, with the steps of plugins that the others enable."""
    known = LearningOptions.__annotations__.keys()
    of_plugins = extra_step_arguments(called, options.keys() - known)
    steps = enabled_extra_steps(called, {name: options.pop(name) for name in of_plugins & options.keys()})
    if steps:
        before = options.get("extra_steps") or ()
        sequence_of_steps("extra_steps", before)
        options["extra_steps"] = [*before, *steps]
    return LearningSettings(**options)


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    """The last answer of `ask` in one thread or task."""

    answer: Answer
    asker: ReferenceType[object]
    """The thread or task. A task inherits context variables, but has not asked what its parent asked."""


class ACELiteLLM:
    """Asks questions, and learns from samples, traces or feedback, with one skillbook.

    Several threads and tasks may use it at once. The methods whose names begin with `a` are for asynchronous code.

    Args:
        llm: The client of the three roles.
        environment: Judges answers in `learn`.
        agent: An agent to use instead of `Agent(llm)`.
        reflector: A reflector to use instead of `Reflector(llm)`.
        skill_manager: A skill manager to use instead of `SkillManager(llm)`.
        **options: skillbook or skillbook_path, dedup_manager or dedup_config, dedup_interval, checkpoint_dir,
            checkpoint_interval, extra_steps, allow, max_adds, max_operations, sections, insights,
            min_confidence, gate, artifacts; see `LearningSettings`. Those that enable steps of plugins, such as
            opik=True, are accepted too.

    Raises:
        ValueError: Two options exclude each other.
        TypeError: An argument is unknown.
        ImportError: What an argument enables is not installed.
    """

    @checked_arguments(LearningOptions, further=extra_step_arguments)
    def __init__(
        self,
        llm: AnyLLMClient,
        *,
        environment: TaskEnvironment | None = None,
        agent: AgentLike | None = None,
        reflector: ReflectorLike | None = None,
        skill_manager: SkillManagerLike | None = None,
        **options: Unpack[LearningOptions],
    ) -> None:
        from ace.roles import agent_for, reflector_for, skill_manager_for

        settings = _learning_settings(type(self).__name__, dict(options))
        self.agent: AgentLike = agent_for(llm) if agent is None else agent
        self.reflector: ReflectorLike = reflector_for(llm) if reflector is None else reflector
        self.skill_manager: SkillManagerLike = skill_manager_for(llm) if skill_manager is None else skill_manager
        self.environment = environment
        self._runners = FacadeRunners(settings)
        self._refreshing = threading.Lock()
        self._learning_enabled = True

    @classmethod
    @checked_arguments()
    def from_model(
        cls, model: str = "gpt-4o-mini", *, max_tokens: int = 2048, temperature: float = 0.0, **kwargs: Any
    ) -> Self:
        """Create one for a model.

        Args:
            model: A LiteLLM model string.
            max_tokens: The maximum length of an answer, in tokens.
            temperature: The sampling temperature.
            **kwargs: The arguments of the class, and those that enable steps of plugins, such as opik=True; all others
                go to the client, such as api_base.

        Raises:
            TypeError: An argument is unknown.
            ImportError: What an argument enables is not installed.
        """
        own = {"environment", "agent", "reflector", "skill_manager", *LearningOptions.__annotations__}
        unknown = kwargs.keys() - own - (client_settings(model) or set())
        of_plugins = extra_step_arguments(f"{cls.__name__}.from_model", unknown)
        client, options = client_and_options(
            cls, model, own | of_plugins, max_tokens=max_tokens, temperature=temperature, **kwargs
        )
        return cls(client, **options)

    @property
    def skillbook(self) -> Skillbook:
        """The book that it uses and changes."""
        return self._runners.skillbook

    @checked_arguments()
    def ask(self, question: str, context: str = "") -> Answer:
        """Return the agent's answer.

        Args:
            question: The question or task.
            context: Further material for the answer.

        Returns:
            The answer: a string with `id`, `skill_ids`, `reasoning` and `usage`, which `learn_from_feedback` takes.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        self.skillbook.refresh()
        return self._remembered(finished(self._answer(BLOCKING, question, context)))

    @checked_arguments()
    async def aask(self, question: str, context: str = "") -> Answer:
        """Return the agent's answer, from asynchronous code; otherwise like `ask`.

        With a client that has `acomplete_structured`, such as `LiteLLMClient`, no thread waits for the model.

        Args:
            question: The question or task.
            context: Further material for the answer.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
            RoleError: The agent returned something other than an `AgentOutput`.
        """
        # One refresh at a time, so that a hundred questions do not use a hundred threads to check one file.
        if self.skillbook.store is not None and self._refreshing.acquire(blocking=False):
            try:
                await ON_LOOP.function(self.skillbook.refresh)
            finally:
                self._refreshing.release()
        return self._remembered(await self._answer(ON_LOOP, question, context))

    async def _answer(self, calling: Calling, question: str, context: str) -> Answer:
        used: list[Usage] = []
        with call_scope(replace(current_call_scope(), on_usage=used.append)):
            output = await call_agent(calling, self.agent, question, context, SkillbookView(self.skillbook))
        return Answer.of(output, question, context, sum(used, Usage()))

    def _remembered(self, answer: Answer) -> Answer:
        """Return the answer, which is now the last one of this thread or task."""
        # A new mapping each time: contexts that were copied from this one share the old one.
        answers = WeakKeyDictionary(_last_answers.get(None) or {})
        answers[self] = _LastAnswer(answer, ref(_current_asker()))
        _last_answers.set(answers)
        return answer

    def _last_answer(self) -> Answer | None:
        answers = _last_answers.get(None)
        last = None if answers is None else answers.get(self)
        return last.answer if last is not None and last.asker() is _current_asker() else None

    @checked_arguments(RunOptions)
    def learn(
        self,
        samples: Iterable[ACESample],
        environment: TaskEnvironment | None = None,
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Answer samples and learn from them, see `ACE.run`.

        Args:
            samples: The samples; a sequence if there are several epochs.
            environment: Scores the answers; by default the one given at construction.
            epochs: The number of passes over the inputs.
            **options: Those of every run, see `RunOptions`.

        Raises:
            ValueError: The run cannot be resumed, or an option is outside its range.
            RuntimeError: Learning is switched off.
        """
        return self._learner(environment).run(samples, epochs, **options)

    @checked_arguments(RunOptions)
    async def alearn(
        self,
        samples: Iterable[ACESample],
        environment: TaskEnvironment | None = None,
        epochs: int = 1,
        **options: Unpack[RunOptions],
    ) -> list[SampleResult[ACEStepContext]]:
        """Answer samples and learn from them, from asynchronous code; otherwise like `learn`. See `ACE.arun`.

        Args:
            samples: The samples; a sequence if there are several epochs.
            environment: Scores the answers; by default the one given at construction.
            epochs: The number of passes over the inputs.
            **options: Those of every run, see `RunOptions`.

        Raises:
            ValueError: The run cannot be resumed, or an option is outside its range.
            RuntimeError: Learning is switched off.
        """
        return await self._learner(environment).arun(samples, epochs, **options)

    @checked_arguments(RunOptions)
    def learn_from_traces(
        self, traces: Iterable[Any], epochs: int = 1, **options: Unpack[RunOptions]
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from recorded traces, see `TraceAnalyser.run`.

        Args:
            traces: The traces, of any type; a sequence if there are several epochs.
            epochs: The number of passes over the inputs.
            **options: Those of every run, see `RunOptions`.

        Raises:
            ValueError: The run cannot be resumed, or an option is outside its range.
            RuntimeError: Learning is switched off.
        """
        return self._analyser().run(traces, epochs, **options)

    @checked_arguments(RunOptions)
    async def alearn_from_traces(
        self, traces: Iterable[Any], epochs: int = 1, **options: Unpack[RunOptions]
    ) -> list[SampleResult[ACEStepContext]]:
        """Learn from recorded traces, from asynchronous code; otherwise like `learn_from_traces`.

        Args:
            traces: The traces, of any type; a sequence if there are several epochs.
            epochs: The number of passes over the inputs.
            **options: Those of every run, see `RunOptions`.

        Raises:
            ValueError: The run cannot be resumed, or an option is outside its range.
            RuntimeError: Learning is switched off.
        """
        return await self._analyser().arun(traces, epochs, **options)

    @checked_arguments()
    def learn_from_feedback(
        self, feedback: str, ground_truth: str | None = None, *, answer: Answer | None = None
    ) -> bool:
        """Learn from what a user says about an answer.

        Args:
            feedback: What was good or bad about the answer.
            ground_truth: The right answer, if it is known.
            answer: What `ask` returned. Without it, the feedback is about the last answer of this thread or task;
                code that serves several users must pass it.

        Returns:
            Whether anything was learned. False before any `ask` in this thread or task, while learning is switched
            off, and after an error (see `failures`).

        Raises:
            TypeError: `answer` is not what `ask` returned.
        """
        trace = self._trace_of(feedback, ground_truth, answer)
        return trace is not None and self.learn_from_traces([trace])[0].error is None

    @checked_arguments()
    async def alearn_from_feedback(
        self, feedback: str, ground_truth: str | None = None, *, answer: Answer | None = None
    ) -> bool:
        """Learn from what a user says about an answer, from asynchronous code; otherwise like `learn_from_feedback`.

        Args:
            feedback: What was good or bad about the answer.
            ground_truth: The right answer, if it is known.
            answer: What `aask` returned; by default its last answer in this task.

        Raises:
            TypeError: `answer` is not what `aask` returned.
        """
        trace = self._trace_of(feedback, ground_truth, answer)
        return trace is not None and (await self.alearn_from_traces([trace]))[0].error is None

    def _trace_of(self, feedback: str, ground_truth: str | None, answer: Answer | None) -> dict[str, Any] | None:
        """Return the trace that feedback on an answer teaches; None if there is no answer, or learning is off."""
        if answer is not None:
            instance_of("answer", answer, Answer, advice="give what ask() returned")
        meant = self._last_answer() if answer is None else answer
        return None if meant is None or not self._learning_enabled else meant.trace(feedback, ground_truth)

    def _learner(self, environment: TaskEnvironment | None) -> ACE:
        self._check_enabled()
        judge = self.environment if environment is None else environment
        return self._runners.learner(self.agent, self.reflector, self.skill_manager, judge)

    def _analyser(self) -> TraceAnalyser:
        self._check_enabled()
        return self._runners.analyser(self.agent, self.reflector, self.skill_manager)

    @property
    def learning_enabled(self) -> bool:
        """Whether learning is switched on; it is at first."""
        return self._learning_enabled

    @property
    def is_learning(self) -> bool:
        """The same as `learning_enabled`, under its name in other frameworks."""
        return self.learning_enabled

    def enable_learning(self) -> None:
        """Switch learning on."""
        self._learning_enabled = True

    def disable_learning(self) -> None:
        """Switch learning off: `learn` and `learn_from_traces` raise, `learn_from_feedback` returns False."""
        self._learning_enabled = False

    @property
    def failures(self) -> list[FailedSample]:
        """The samples that have failed so far, with the raw answers of the model."""
        return [failed for runner in self._runners for failed in runner.failures]

    @property
    def learning_stats(self) -> dict[str, int]:
        """Counts of samples in the background: active, queued, completed and, of these, failed."""
        return summed_stats(runner.learning_stats for runner in self._runners)

    @checked_arguments()
    def wait_for_background(self, timeout: float | None = None) -> None:
        """Wait until everything is learned; see `ACERunner.wait_for_background`.

        Args:
            timeout: The maximum wait for each runner, in seconds; None waits indefinitely.
        """
        for runner in self._runners:
            runner.wait_for_background(timeout)

    def get_strategies(self) -> str:
        """Return the skills as text for the prompt of an agent; empty without skills."""
        from ace.roles.prompts import wrap_skillbook_for_external_agent

        return wrap_skillbook_for_external_agent(SkillbookView(self.skillbook))

    @checked_arguments()
    def save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Save the skillbook as it is now; see `Skillbook.save_to_file`.

        If it cannot be saved there, a new file beside it gets what was learned, and the error says which.

        Args:
            path: A JSON file, or a new store (`.db`).
            merge: Add to what others have written into the file.
            overwrite: Replace the file even if it contains another skillbook.

        Raises:
            SkillbookChangedError: The file has changed since it was read or saved here, or contains a skillbook that
                this one was not loaded from.
            SkillbookFileError: The file exists and is not a skillbook.
        """
        save_without_loss(self.skillbook, path, merge=merge, overwrite=overwrite)

    @checked_arguments()
    def load(self, path: str | Path) -> None:
        """Switch to the skillbook of a file. Samples in the background are first learned into the old one.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: The file does not exist.
            SkillbookFileError: The file is not a skillbook; the current one stays in use.
        """
        new = Skillbook.load_from_file(path)
        self.wait_for_background()
        self._runners.continue_with(new, path)

    save_skillbook = save
    load_skillbook = load
    wait_for_learning = wait_for_background

    def _check_enabled(self) -> None:
        if not self._learning_enabled:
            raise RuntimeError("learning is switched off; call enable_learning() first")


_last_answers: ContextVar[WeakKeyDictionary[ACELiteLLM, _LastAnswer]] = ContextVar("ace_last_answers")


def _current_asker() -> object:
    """Return the running task, or the thread if no task runs."""
    asyncio = sys.modules.get("asyncio")  # if it is not loaded, no task runs, and loading it is slow
    task: object = None
    if asyncio is not None:
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            task = None
    return threading.current_thread() if task is None else task


@final
class FacadeRunners:
    """Runners that are created when they are first needed. Iterating yields all that were created.

    Those no longer used are kept, because samples may be in their background, and for their `failures`.

    Args:
        settings: The settings of all runners.
    """

    def __init__(self, settings: LearningSettings) -> None:
        self._settings = settings
        self.skillbook = settings.book()
        """The book that they change."""
        self._learner: ACE | None = None
        self._judge: TaskEnvironment | None = None
        self._analyser: TraceAnalyser | None = None
        self._dropped: list[ACERunner] = []
        self._lock = threading.Lock()  # several users may need the first runner at once

    def __iter__(self) -> Iterator[ACERunner]:
        yield from self._dropped
        yield from (runner for runner in (self._learner, self._analyser) if runner is not None)

    def learner(
        self,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        judge: TaskEnvironment | None,
    ) -> ACE:
        """Return the runner that learns from samples; a new one if the environment has changed.

        Args:
            agent: Answers the questions.
            reflector: Determines what can be learned from a trace.
            skill_manager: Turns what was learned into operations on the skillbook.
            judge: The environment that judges the answers.
        """
        with self._lock:
            if self._learner is not None and self._judge is not judge:
                self._dropped.append(self._learner)
                self._learner = None
            if self._learner is None:
                steps = ACE._steps(agent, reflector, skill_manager, judge, None, self._settings, self.skillbook)
                self._judge, self._learner = judge, ACE._composed(steps, self.skillbook, self._settings)
            return self._learner

    def analyser(self, agent: AgentLike, reflector: ReflectorLike, skill_manager: SkillManagerLike) -> TraceAnalyser:
        """Return the runner that learns from traces.

        Args:
            agent: Is asked to prove what is learned.
            reflector: Determines what can be learned from a trace.
            skill_manager: Turns what was learned into operations on the skillbook.
        """
        with self._lock:
            if self._analyser is None:
                steps = self._settings.tail(reflector, skill_manager, self.skillbook, agent=agent)
                self._analyser = TraceAnalyser._composed(steps, self.skillbook, self._settings)
            return self._analyser

    def continue_with(self, skillbook: Skillbook, path: str | Path) -> None:
        """Continue with another book.

        Args:
            skillbook: The book.
            path: Its file.
        """
        with self._lock:
            self._dropped = list(self)
            self._learner = self._analyser = None
            self._settings = self._settings.moved(self.skillbook, skillbook, path)
            self.skillbook = skillbook
