"""`LangChainExecuteStep`, which runs a chain, an agent or a graph with the skills in the prompt."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ace.context import ACEStepContext, SkillbookView
from ace.integrations import checked_class, extract_cited_skill_ids, renamed
from ace.pipeline import PipelineCancelled, cancel_token_var
from ace_langchain.calling import CALLS, Call, call_runnable, watched
from ace_langchain.chains import (
    has_later_place,
    holds_retriever,
    lacking,
    with_clean_history,
    with_skills_at_models,
    with_skills_in_prompts,
)
from ace_langchain.framework import load
from ace_langchain.injection import at_model, cleaned, restored, with_skills
from ace_langchain.inputs import SKILL_FIELDS, conversation_before, is_resuming, shaped, task_of
from ace_langchain.kinds import kind_of, prompt_variables, unwrapped
from ace_langchain.messages import is_message
from ace_langchain.offer import offering, skills_text
from ace_langchain.outcome import Outcome, failed, is_wrong_use, outcome_of, problem_of
from ace_langchain.result import LangChainResult
from ace_langchain.steps import words_of

if TYPE_CHECKING:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable, RunnableConfig

    from ace_langchain.recorder import Recorder, SearchGuard
    from ace_langchain.recording import Recording

__all__ = ["Inject", "LangChainExecuteStep"]

_logger = logging.getLogger(__name__)

_MOST_PAUSED = 10_000
"""The maximum number of interrupted runs that are kept until they are resumed."""
_NAMED_BY_US = "ace_new_thread"
"""The metadata key of a run whose thread was named by the step."""

Inject = Literal["input", "middleware"] | Callable[[Any, str], Any]


@checked_class
class LangChainExecuteStep:
    """Runs a chain, an agent or a graph with the skills in the prompt, and puts a `LangChainResult` on the trace.

    A failure inside the run is recorded: the result has `success=False`, the error, and everything that happened before
    it. Misuse and cancellation are raised.

    Args:
        runnable: A Runnable, an agent of `create_agent`, a compiled graph, or a legacy AgentExecutor.
        inject: How the skills reach the model: `input`, as part of the input; `middleware`, through the
            `skillbook_middleware` of the agent; or a function that takes the input and the skills and returns the
            input with them.
        input_key: The field of a dict that holds the task, if it is not evident.
        output_key: The field of a dict that holds the answer, if it is not evident.
        call: `async` awaits `ainvoke`, which also runs synchronous parts; `sync` calls `invoke` in a thread, for parts
            that cannot be awaited (a run that times out or is cancelled continues in its thread until it ends);
            `stream` combines the chunks of `astream`.
        on_chunk: With `call="stream"`, called with every chunk. The chunks of a graph are pairs: `values` and a state,
            or `messages` and a token.
        on_interrupt: Answers a graph that interrupts itself, for example to ask for an approval: it is called with the
            graph's question, and returns the value with which the graph is resumed. Without it, the run ends there:
            its result has `waits_for`, and is not learned from until a `Command` resumes its thread; both are then one
            trace.
        config: A `RunnableConfig` with callbacks, tags, metadata and so on, or a function that creates one from the
            input. If a graph has a checkpointer and the config has no `thread_id`, each run gets a new one.
        options: Additional arguments of the call, such as `context` of a graph.
        recursion_limit: The maximum number of steps of a graph, unless `config` sets another or the graph allows fewer;
            None uses the limit of the graph. (`create_agent` allows 9,999.)
        timeout: The time limit of a run, in seconds.
        skill_budget_tokens: The maximum size of the skills, in tokens; None includes all skills.
        timeout_seconds: The old name of timeout.
        budget_tokens: The old name of skill_budget_tokens.

    Raises:
        TypeError: The object is not a Runnable.
        ValueError: An argument is invalid.
        ImportError: `langchain-core` is not installed.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __init__(
        self,
        runnable: Runnable[Any, Any],
        *,
        inject: Inject = "input",
        input_key: str | None = None,
        output_key: str | None = None,
        call: Call = "async",
        on_chunk: Callable[[Any], None] | None = None,
        on_interrupt: Callable[[Sequence[Any]], Any] | None = None,
        config: RunnableConfig | Callable[[Any], RunnableConfig] | None = None,
        options: Mapping[str, Any] | None = None,
        recursion_limit: int | None = 50,
        timeout: float | None = None,
        skill_budget_tokens: int | None = None,
        timeout_seconds: float | None = None,
        budget_tokens: int | None = None,
    ) -> None:
        load("langchain_core.runnables", needed_by="LangChainExecuteStep")
        _check_runnable(runnable)
        if inject not in ("input", "middleware") and not callable(inject):
            raise ValueError(f"inject must be 'input', 'middleware' or a function, got {inject!r}")
        if call not in CALLS:
            raise ValueError(f"call must be one of {', '.join(map(repr, CALLS))}, got {call!r}")
        if on_chunk is not None and call != "stream":
            raise ValueError(f"on_chunk needs call='stream'; call={call!r} gives no chunks")
        timeout = renamed("timeout_seconds", timeout_seconds, "timeout", timeout)
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {timeout!r}")
        self.runnable = runnable
        has_place = has_later_place(runnable) or any(name in prompt_variables(runnable) for name in SKILL_FIELDS)
        self._searches = inject == "input" and not has_place and holds_retriever(runnable)
        if self._searches:
            _logger.warning(
                "this chain has a retriever, which would search with skills that are put into the input; they are "
                "added to what its models are shown instead. To choose the place, give the prompt a variable %r",
                SKILL_FIELDS[0],
            )
        self._paused: dict[str, _Begun] = {}
        self.inject = inject
        self.on_interrupt = on_interrupt
        self.input_key = input_key
        self.output_key = output_key
        self.call: Call = call
        self.on_chunk = on_chunk
        self.config = config
        self.options = dict(options or {})
        self.recursion_limit = recursion_limit
        self.timeout = timeout
        self.skill_budget_tokens = renamed("budget_tokens", budget_tokens, "skill_budget_tokens", skill_budget_tokens)

    async def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Run the sample and set `trace` to the result.

        Raises:
            ValueError: The skills cannot be added to the input, or the input does not fit the runnable.
            PipelineCancelled: The run was cancelled.
        """
        if ctx.sample is None or ctx.skillbook is None:
            raise ValueError("LangChainExecuteStep needs the context fields 'sample' and 'skillbook'; one is None")
        return ctx.replace(trace=await self.execute(ctx.sample, ctx.skillbook))

    async def execute(self, item: Any, skillbook: SkillbookView) -> LangChainResult:
        """Run one input and return its result.

        Args:
            item: A text, a dict, messages, a sample, or any other input of the runnable.
            skillbook: The skills for the prompt.

        Raises:
            ValueError: The skills cannot be added to the input, or the input does not fit the runnable.
            PipelineCancelled: The run was cancelled.
        """
        from ace_langchain.recorder import Recorder, SearchGuard

        skills = skills_text(skillbook, "", self.skill_budget_tokens)
        plain = shaped(self.runnable, item, self.input_key)
        guard = SearchGuard(skills) if skills else None
        config = self._config(item, [] if guard is None else [guard])
        thread = str(config.get("configurable", {}).get("thread_id") or "")
        is_resumed = is_resuming(plain)
        begun = await self._begun(plain, thread, config) if is_resumed else _Begun(plain, Recorder(), self.input_key)
        recorder = begun.recorder
        config = _merge_configs(config, {"callbacks": [recorder]})
        runnable, value = self.runnable, plain
        if not is_resumed:
            stored = await self._stored_messages(config) if self.inject == "input" else []
            runnable, value = self._with_skills(plain, skills, stored)
            problem_before = lacking(runnable, value) if kind_of(runnable) == "simple" else None
            if problem_before is not None:
                raise ValueError(problem_before)
        # Skills that are already in the input must not be added again by a middleware.
        is_only_own = self.inject != "middleware"
        with offering(
            lambda agent: skills_text(skillbook, agent, self.skill_budget_tokens, is_only_own=is_only_own)
        ) as offer:
            outcome, failed_at = await self._outcome(runnable, value, config, recorder, guard)
            while outcome.waits_for and self.on_interrupt is not None:
                answer = self.on_interrupt(outcome.interrupts)
                command = load("langgraph.types", needed_by="on_interrupt").Command(resume=answer)
                recorder.see_decision(answer)
                outcome, failed_at = await self._outcome(runnable, command, config, recorder, guard)
        recorder.see_results(outcome.messages)
        recording = recorder.recording()
        if self.inject == "middleware" and recording.answers and not offer.is_taken:
            raise ValueError(
                "the agent called a model without the skills: inject='middleware' needs an agent that was made with "
                "create_agent(..., middleware=[skillbook_middleware(skillbook)])"
            )
        if outcome.waits_for and thread:
            self._paused[thread] = begun
            while len(self._paused) > _MOST_PAUSED:
                self._paused.pop(next(iter(self._paused)), None)
        problem = outcome.problem
        if not outcome.waits_for and problem is None:
            problem = next(filter(None, map(problem_of, recording.answers[-1:])), None)
        return LangChainResult(
            task=begun.task,
            output=outcome.output,
            result_type=outcome.result_type,
            success=None if outcome.waits_for else problem is None,
            error=problem,
            intermediate_steps=recording.tool_uses,
            messages=outcome.messages or recording.answers,
            raw_result=outcome.returned,
            failed_at=failed_at,
            steps=recording.steps,
            context=begun.context,
            skill_ids=_cited(recording, skillbook),
            usage=recording.usage,
            duration_seconds=begun.seconds(),
            thread_id=thread,
            waits_for=outcome.waits_for,
        )

    async def _outcome(
        self,
        runnable: Runnable[Any, Any],
        value: object,
        config: RunnableConfig,
        recorder: Recorder,
        guard: SearchGuard | None,
    ) -> tuple[Outcome, str]:
        """Call the runnable once, and return its outcome and the part that failed."""
        try:
            running = call_runnable(runnable, value, config, self.options, self.call, self.on_chunk)
            returned = await watched(running, self.timeout, cancel_token_var.get())
        except (PipelineCancelled, asyncio.CancelledError):
            raise
        except Exception as error:
            if guard is not None and guard.error is not None:
                raise guard.error from None
            if is_wrong_use(error):
                raise ValueError(f"{recorder.place_of(error) or 'the chain'}: {error}") from error
            return failed(error), recorder.place_of(error)
        if guard is not None and guard.error is not None:  # the runnable has caught it
            raise guard.error
        return outcome_of(returned, kind_of(self.runnable), value, self.output_key), ""

    async def _begun(self, command: object, thread: str, config: RunnableConfig) -> _Begun:
        """Return the run that a command resumes, as recorded by this step or read from its thread."""
        from ace_langchain.recorder import Recorder

        named = config.get("metadata", {}).get(_NAMED_BY_US)
        if not thread or named:
            raise ValueError(
                "a Command resumes a thread; name it: config={'configurable': {'thread_id': ...}}, or a function of "
                "the input. The result of the run that was interrupted has its name as thread_id"
            )
        begun = self._paused.pop(thread, None)
        if begun is None:
            messages = [restored(message) for message in await self._stored_messages(config)]
            asked = max((place for place, message in enumerate(messages) if message.type == "human"), default=0)
            begun = _Begun({"messages": messages[: asked + 1]}, Recorder(), None)
            begun.recorder.recall(messages[asked + 1 :])
        begun.recorder.see_decision(getattr(command, "resume", None))
        return begun

    async def _stored_messages(self, config: RunnableConfig) -> list[BaseMessage]:
        """Return the messages of the thread that a run continues."""
        graph: Any = unwrapped(self.runnable)
        if kind_of(graph) != "langgraph" or not getattr(graph, "checkpointer", None):
            return []
        state = await (asyncio.to_thread(graph.get_state, config) if self.call == "sync" else graph.aget_state(config))
        held = state.values.get("messages") if isinstance(state.values, Mapping) else None
        return list(held) if isinstance(held, list) and all(map(is_message, held)) else []

    def _with_skills(
        self, value: object, skills: str, stored: Sequence[BaseMessage]
    ) -> tuple[Runnable[Any, Any], object]:
        """Return the runnable and its input, with the skills added to one of them."""
        if self.inject == "middleware":
            return self.runnable, value
        if callable(self.inject):
            return self.runnable, self.inject(value, skills)
        if kind_of(self.runnable) == "simple":
            if has_later_place(self.runnable):
                return with_skills_in_prompts(self.runnable, skills), value
            if self._searches and not (isinstance(value, Mapping) and value.keys() & set(SKILL_FIELDS)):
                chain = with_skills_at_models(self.runnable, lambda shown: at_model(shown, skills))
                if chain is not None:
                    return chain, value
        given = with_skills(self.runnable, value, skills, self.input_key, stored)
        return with_clean_history(self.runnable, lambda message: cleaned(message, skills)), given

    def _config(self, item: object, handlers: list[BaseCallbackHandler]) -> RunnableConfig:
        """Return the config of one run: the caller's, with our handlers added to its callbacks."""
        given = self.config(item) if callable(self.config) else self.config
        bound: Mapping[str, Any] = getattr(self.runnable, "config", None) or {}
        ours: RunnableConfig = {"callbacks": handlers}
        if self.recursion_limit is not None and "recursion_limit" not in (given or {}):
            ours["recursion_limit"] = min(self.recursion_limit, bound.get("recursion_limit", self.recursion_limit))
        config = _merge_configs(given, ours)
        if getattr(unwrapped(self.runnable), "checkpointer", None):
            # Runs that share a thread would see each other's conversations.
            named = {**bound.get("configurable", {}), **config.get("configurable", {})}
            config["configurable"] = {"thread_id": str(uuid.uuid4()), **named}
            if "thread_id" not in named:
                config["metadata"] = {**config.get("metadata", {}), _NAMED_BY_US: True}
        return config


class _Begun:
    """The first part of an interrupted run: its task, and its recording until the interruption."""

    def __init__(self, given: object, recorder: Recorder, input_key: str | None) -> None:
        self.task = task_of(given, input_key)
        self.context = conversation_before(given)
        self.recorder = recorder
        self._start = time.monotonic()

    def seconds(self) -> float:
        """Return how long ago it began."""
        return time.monotonic() - self._start


def _merge_configs(*configs: RunnableConfig | None) -> RunnableConfig:
    merged: RunnableConfig = load("langchain_core.runnables.config", needed_by="LangChainExecuteStep").merge_configs(
        *configs
    )
    return merged


def _check_runnable(runnable: object) -> None:
    missing = [name for name in ("invoke", "ainvoke", "astream") if not callable(getattr(runnable, name, None))]
    if missing:
        hint = "; compile the graph first: graph.compile()" if hasattr(runnable, "compile") else ""
        raise TypeError(f"a {type(runnable).__name__} is not a Runnable: it has no {missing[0]}(){hint}")


def _cited(recording: Recording, skillbook: SkillbookView) -> tuple[str, ...]:
    """Return the skills that the models cited in their answers; inputs also contain ids that were only shown."""
    words = "\n".join(words_of(answer) for answer in recording.answers)
    # A task may contain texts that look like the id of a skill.
    return tuple(found for found in extract_cited_skill_ids(words) if skillbook.get_skill(found) is not None)
