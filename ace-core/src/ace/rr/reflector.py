"""`RRStep`: a reflector that explores a trace with code."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ace._internal.arguments import checked_arguments, instance_of
from ace.calls.model_calls import call_scope, current_call_scope, redactor_for
from ace.context import ACEStepContext
from ace.logs.trace import StandardTrace, read_batch, read_trace, shown_names, traces_in_batch
from ace.outputs import AgentOutput, ReflectorOutput
from ace.pipeline import Pipeline, SubRunner
from ace.protocols.llm import Usage
from ace.protocols.roles import SkillbookReader
from ace.roles.prompts import make_skillbook_excerpt, recent_reflections_section
from ace.roles.small_models import is_small
from ace.rr.config import ReflectionLimitError, RRConfig
from ace.rr.conversation import Turn, ask_model, check_client, fitted_messages
from ace.rr.prompt import (
    RECURSIVE_REFLECTOR_PROMPT,
    SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT,
    checked_template,
    first_prompt,
    prompt_text,
)
from ace.rr.steps import (
    CheckResultStep,
    ExtractCodeStep,
    LLMCallStep,
    RRIterationContext,
    SandboxExecStep,
    SandboxLike,
    message_to_model,
    named_items,
    parsed_reflection,
)
from ace.rr.sub_agent import CallBudget, SubAgentConfig, SubAgentLLM
from ace.steps.reflect import ReflectStep

if TYPE_CHECKING:
    from ace.rr.sandbox import TraceSandbox

__all__ = ["RRStep"]

_SYNTHESIS = prompt_text("last_call.md")
_CHARACTERS_PER_TOKEN = 3
"""Code and most languages have about as many; English has more."""


class RRStep(SubRunner[RRIterationContext]):
    """A reflector that explores a trace with code, in turns: the model writes code and reads its output.

    Use it wherever a reflector is accepted, or as a step instead of `ReflectStep`, which continues the sample in the
    background.

    Args:
        llm: A client. One without `complete_messages` gets the whole conversation as the prompt of `complete`.
        config: The limits and settings; the defaults of `RRConfig` if it is None.
        prompt_template: The template of the first prompt. Its placeholders are overview (required), question, answer,
            ground_truth, feedback, skillbook_excerpt, names, schema and limits. By default RECURSIVE_REFLECTOR_PROMPT,
            or a shorter one for the client of a small model (`is_small_model`).
        subagent_llm: The client for sub-questions; by default `llm`.
        allow: The classes of sensitive text that are not redacted; see `ace.redaction`.

    Raises:
        TypeError: A client has neither `complete_messages` nor `complete`.
        ImportError: The sandbox is not installed.
        ValueError: The template has an unknown placeholder, or lacks the overview.
    """

    requires = frozenset({"trace", "skillbook"})
    provides = frozenset({"reflection"})
    async_boundary = True
    max_workers = 3

    @checked_arguments()
    def __init__(
        self,
        llm: Any,
        config: RRConfig | None = None,
        prompt_template: str | None = None,
        subagent_llm: Any = None,
        *,
        allow: Collection[str] = (),
    ) -> None:
        check_client("the client of RRStep", llm)
        if subagent_llm is not None:
            check_client("subagent_llm", subagent_llm)
        self.config = RRConfig() if config is None else config
        instance_of("config", self.config, RRConfig, advice="give RRConfig(...)")
        if importlib.util.find_spec("pydantic_monty") is None:
            raise ImportError("RRStep requires the sandbox: install the extra, ace-core[rr]")
        super().__init__(max_iterations=self.config.max_iterations)
        self.llm = llm
        self.subagent_llm = subagent_llm
        self.allow = frozenset(allow)
        default = SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT if is_small(llm) else RECURSIVE_REFLECTOR_PROMPT
        self._template = checked_template(default if prompt_template is None else prompt_template)

    @property
    def prompt_template(self) -> str:
        """The text of the template."""
        return self._template.text

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Put the reflection on the context, as `ReflectStep(self)` does."""
        return ReflectStep(self, allow=self.allow)(ctx)

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Reflect on one execution.

        Args:
            question: The question or task; empty if unknown.
            agent_output: The answer of the agent, with its reasoning.
            skillbook: The skills that the agent had.
            ground_truth: The correct answer, if known.
            feedback: The judgement of an environment, if there is one.
            **kwargs: `trace` is the whole trace, of any type; `recent_reflections` are the most recent reflections on
                other traces, the newest one last; everything else is ignored. A list of dicts that are traces, or
                a dict with nothing but `items` or `traces`, is a batch: the model explores all of them together. If
                that fails, each half is explored separately, so that one broken trace affects no other.

        Returns:
            The reflection. `raw["rr_trace"]` records its turns. For a batch, it also has `failed_items`, the failed
            traces with index, item and error; and each learning has the `trace_ids` that support it.

        Raises:
            ReflectionLimitError: The model submitted no usable result within the limits.
            LLMCallError: A model could not be reached.
            PipelineCancelled: The run was cancelled.
            ValueError: No trace of a batch can be read.
        """
        scope = current_call_scope()
        with call_scope(scope if scope.role else scope.asked_by("Reflector")):
            redactor = redactor_for(self.llm, self.subagent_llm)
            skills = redactor.redact(skillbook.as_prompt())
            batch = traces_in_batch(kwargs.get("trace"))
            if batch is not None:
                return self._explored_together(batch, skills)
            texts = {
                "question": question,
                "answer": agent_output.final_answer,
                "ground_truth": ground_truth or "",
                "feedback": feedback or "",
            }
            read = read_trace(kwargs.get("trace"))
            trace = redactor.redact_value(_session_trace(texts, agent_output.reasoning, read))
            excerpt = redactor.redact(make_skillbook_excerpt(skillbook, agent_output.skill_ids))
            recent = recent_reflections_section(kwargs.get("recent_reflections") or ())
            return self._explored(trace, None, skills, excerpt, recent)

    def _explored_together(self, items: Mapping[str, object], skills: str) -> ReflectorOutput:
        """Reflect on several traces. One that cannot be read is omitted."""
        redactor = redactor_for(self.llm, self.subagent_llm)
        names = shown_names(items, redactor)
        read, unread = read_batch({shown: items[name] for shown, name in names.items()})
        problems = {name: redactor.redact(_described(error)) for name, error in unread.items()}
        if not read:
            raise ValueError(
                f"none of the {len(items)} traces can be read: {next(iter(problems.values()), 'no trace')}"
            )
        batch = {name: redactor.redact_value(_session_trace({}, "", trace)) for name, trace in read.items()}
        reflection = self._explored_in_halves(batch, skills, problems)
        if not problems:
            return reflection
        failed = [
            {"index": index, "item": name, "error": problems[name]}
            for index, name in enumerate(names)
            if name in problems
        ]
        rr_trace = {**reflection.raw["rr_trace"], "failed_items": failed}
        return reflection.model_copy(update={"raw": {**reflection.raw, "rr_trace": rr_trace}})

    def _explored_in_halves(
        self, batch: Mapping[str, Mapping[str, Any]], skills: str, problems: dict[str, str]
    ) -> ReflectorOutput:
        """Reflect on several traces; if that fails, on each half of them, so that one broken trace affects no other."""
        from ace.rr.sandbox import SandboxError

        failures: list[ReflectionLimitError | SandboxError] = []
        try:
            return self._explored({}, batch, skills, "")
        except (ReflectionLimitError, SandboxError) as error:
            if len(batch) == 1:
                problems[next(iter(batch))] = _described(error)
                raise
            failures.append(error)
        names = list(batch)
        middle = (len(names) + 1) // 2
        found = []
        for half in (names[:middle], names[middle:]):
            try:
                found.append(self._explored_in_halves({name: batch[name] for name in half}, skills, problems))
            except (ReflectionLimitError, SandboxError) as error:
                failures.append(error)
        if not found:
            raise failures[-1]
        return _joined(found)

    def _explored(
        self,
        trace: Mapping[str, Any],
        batch: Mapping[str, Mapping[str, Any]] | None,
        skills: str,
        excerpt: str,
        recent: str = "",
    ) -> ReflectorOutput:
        config = self.config
        budget = CallBudget(config.max_llm_calls, max_tokens=config.max_tokens, max_cost=config.max_cost)
        sub_agent = SubAgentLLM(
            self.llm if self.subagent_llm is None else self.subagent_llm,
            SubAgentConfig.of(config),
            budget=budget,
            reserve=self._reserve(budget) + 1,
        )
        with _sandbox(trace, batch, skills, config, self._functions(sub_agent)) as sandbox:
            reflection: ReflectorOutput = self.run_loop(
                trace=trace,
                batch=batch,
                excerpt=excerpt,
                recent=recent,
                sandbox=sandbox,
                sub_agent=sub_agent,
                budget=budget,
            )
        learnings = [
            learning.model_copy(update={"trace_ids": named_items(learning.evidence, batch or ()) or list(batch or ())})
            for learning in reflection.extracted_learnings
        ]
        return reflection.model_copy(update={"extracted_learnings": learnings})

    def _functions(self, sub_agent: SubAgentLLM) -> dict[str, Callable[..., Any]]:
        functions: dict[str, Callable[..., Any]] = {}
        if self.config.enable_subagent:
            functions |= {"ask_llm": sub_agent.ask, "ask_llm_many": sub_agent.ask_many}
        if self.config.enable_llm_query:
            functions["llm_query"] = sub_agent.query
        return functions

    def _reserve(self, budget: CallBudget) -> int:
        """Return the number of calls to reserve: one for the fallback, if enabled."""
        return int(self.config.enable_fallback_synthesis and budget.max_calls > 1)

    # The loop. The state of a reflection is in the arguments of `run_loop` and in the context.

    def _build_inner_pipeline(self, **kwargs: Any) -> Pipeline[RRIterationContext]:
        budget: CallBudget = kwargs["budget"]
        item_ids = kwargs["batch"] or ()
        sandbox: SandboxLike = kwargs["sandbox"]
        return Pipeline(
            [
                LLMCallStep(self.llm, budget, reserve=self._reserve(budget)),
                ExtractCodeStep(),
                SandboxExecStep(sandbox, kwargs["sub_agent"]),
                CheckResultStep(self.config, self.llm, item_ids=item_ids if len(item_ids) > 1 else ()),
            ]
        )

    def _build_initial_context(self, **kwargs: Any) -> RRIterationContext:
        budget: CallBudget = kwargs["budget"]
        system, user = first_prompt(
            self._template,
            kwargs["trace"],
            kwargs["batch"],
            self.config,
            llm=self.llm,
            skillbook_excerpt=kwargs["excerpt"],
        )
        user = "\n\n".join(filter(None, (kwargs["recent"], user)))
        is_last = self._leaves_one_turn(budget)
        first = message_to_model(user, 1, self.config, is_last=is_last)
        head = (first,) if not system else ({"role": "system", "content": system}, first)
        return RRIterationContext(
            messages=head, head=head, is_last=is_last, budget=budget, sub_agent=kwargs["sub_agent"]
        )

    def _leaves_one_turn(self, budget: CallBudget) -> bool:
        return budget.is_spent or budget.left - self._reserve(budget) <= 1

    def _is_done(self, ctx: RRIterationContext) -> bool:
        return ctx.terminated or ctx.is_last

    def _accumulate(self, ctx: RRIterationContext) -> RRIterationContext:
        is_last = ctx.budget is not None and self._leaves_one_turn(ctx.budget)
        turns = (*ctx.turns, _turn_of(ctx, self.config, is_last=is_last))
        return RRIterationContext(
            messages=fitted_messages(ctx.head, turns, self._most_characters()),
            iteration=ctx.iteration + 1,
            has_looked=ctx.has_looked,
            is_last=is_last,
            head=ctx.head,
            turns=turns,
            record=ctx.record,
            budget=ctx.budget,
            sub_agent=ctx.sub_agent,
        )

    def _most_characters(self) -> int:
        """Return the size of the conversation: that of the settings, or less if the model's window is smaller."""
        limit = getattr(self.llm, "input_token_limit", None)
        most = self.config.max_context_chars
        return min(most, limit * _CHARACTERS_PER_TOKEN) if isinstance(limit, int) else most

    def _extract_result(self, ctx: RRIterationContext) -> ReflectorOutput:
        if ctx.reflection is None:
            return self._at_limit(ctx, "the budget for model calls is used up")
        return _with_trace(ctx.reflection, ctx, timed_out=False)

    def _on_timeout(self, last_ctx: RRIterationContext, iteration: int, **kwargs: Any) -> ReflectorOutput:
        return self._at_limit(last_ctx, f"the limit of {iteration} iterations was reached")

    def _at_limit(self, ctx: RRIterationContext, limit: str) -> ReflectorOutput:
        """Ask for the findings, or fail."""
        assert ctx.budget is not None
        answers = [turn.messages[0]["content"] for turn in ctx.turns]
        answers.append("" if ctx.llm_response is None else ctx.llm_response.text)
        problem = ctx.problem or "no result was submitted"
        if self.config.enable_fallback_synthesis and ctx.budget.consume():
            last = _turn_of(ctx, self.config)
            record = "".join(message["content"].partition("\n")[2] + "\n\n" for message in last.messages[1:])
            request = {
                "role": "user",
                "content": f"[Iteration {ctx.iteration}/{self.max_iterations}]\n{record}{_SYNTHESIS}",
            }
            turns = [*ctx.turns, replace(last, messages=(last.messages[0], request))]
            messages = fitted_messages(ctx.head, turns, self._most_characters())
            response = ask_model(self.llm, messages, {}, kind="synthesis")
            ctx.budget.spend(response, sum(len(message["content"]) for message in messages))
            answers.append(response.text)
            reflection, problem = parsed_reflection(response.text)
            if reflection is not None:
                redacted = redactor_for(self.llm).redact_value(reflection.model_dump(mode="json"))
                return _with_trace(ReflectorOutput.model_validate(redacted), ctx, timed_out=True)
        raise ReflectionLimitError(
            f"{limit}; {problem}", iterations=ctx.iteration, calls=ctx.budget.count, raw_answers=answers
        )


def _sandbox(
    trace: Mapping[str, Any],
    batch: Mapping[str, Mapping[str, Any]] | None,
    skills: str,
    config: RRConfig,
    functions: Mapping[str, Callable[..., Any]],
) -> TraceSandbox:
    from ace.rr.sandbox import SandboxLimits, TraceSandbox

    limits = SandboxLimits(seconds=config.timeout, memory=config.max_memory, output_characters=config.max_output_chars)
    return TraceSandbox(trace, skills, limits=limits, functions=functions, batch=batch)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _session_trace(texts: Mapping[str, str], reasoning: str, read: StandardTrace) -> dict[str, Any]:
    """Return the record for the session. The arguments take precedence over the fields of the trace."""
    steps: Sequence[Mapping[str, Any]] = read["steps"]
    if not steps and (reasoning or read["reasoning"]):
        content = reasoning or read["reasoning"]
        steps = [{"kind": "thought", "name": "", "content": content, "is_error": False, "place": "reasoning"}]
    names = ("question", "answer", "ground_truth", "feedback")
    known = {name: texts.get(name) or read.get(name) or "" for name in names}
    more = {"context": read["context"], "rest": read["rest"]}
    return {**known, "steps": list(steps), **{name: value for name, value in more.items() if value}}


def _joined(reflections: Sequence[ReflectorOutput]) -> ReflectorOutput:
    """Merge several reflections into one."""

    def text(name: str) -> str:
        return "\n\n".join(filter(None, (getattr(reflection, name) for reflection in reflections)))

    traces = [reflection.raw["rr_trace"] for reflection in reflections]
    costs = [trace["usage"]["cost"] for trace in traces]
    usage = {name: sum(trace["usage"][name] for trace in traces) for name in ("calls", "input_tokens", "output_tokens")}
    rr_trace = {
        "iterations": [turn for trace in traces for turn in trace["iterations"]],
        "subagent_calls": [call for trace in traces for call in trace["subagent_calls"]],
        "total_iterations": sum(trace["total_iterations"] for trace in traces),
        "timed_out": any(trace["timed_out"] for trace in traces),
        "usage": {**usage, "cost": None if None in costs else sum(costs)},
    }
    return ReflectorOutput(
        reasoning=text("reasoning"),
        error_identification=text("error_identification"),
        root_cause_analysis=text("root_cause_analysis"),
        correct_approach=text("correct_approach"),
        key_insight=text("key_insight"),
        extracted_learnings=[learning for reflection in reflections for learning in reflection.extracted_learnings],
        skill_tags=[tag for reflection in reflections for tag in reflection.skill_tags],
        judgements=[judgement for reflection in reflections for judgement in reflection.judgements],
        raw={"rr_trace": rr_trace},
    )


def _turn_of(ctx: RRIterationContext, config: RRConfig, *, is_last: bool = False) -> Turn:
    answer = "" if ctx.llm_response is None else ctx.llm_response.text
    feedback = ctx.feedback_messages
    if is_last and feedback:
        text = feedback[-1]["content"].partition("\n")[2]
        feedback = (message_to_model(text, ctx.iteration + 1, config, is_last=True),)
    result = ctx.exec_result
    found = result is not None and ("FINDING" in result.stdout or bool(result.error) or result.has_final)
    # Some servers reject an empty message.
    return Turn(
        ctx.iteration, ({"role": "assistant", "content": answer or "(empty)"}, *feedback), found or ctx.questions > 0
    )


def _with_trace(reflection: ReflectorOutput, ctx: RRIterationContext, *, timed_out: bool) -> ReflectorOutput:
    """Return the reflection with the record of its turns."""
    usage = Usage() if ctx.budget is None else ctx.budget.usage
    calls = () if ctx.sub_agent is None else ctx.sub_agent.calls
    redact = partial(redactor_for(None if ctx.sub_agent is None else ctx.sub_agent.llm).redact_value)
    rr_trace = {
        "iterations": [dict(turn) for turn in ctx.record],
        "subagent_calls": [redact(asdict(call)) for call in calls],
        "total_iterations": ctx.iteration,
        "timed_out": timed_out,
        "usage": {
            "calls": 0 if ctx.budget is None else ctx.budget.count,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost": None if usage.unpriced_calls else usage.cost,
        },
    }
    return reflection.model_copy(update={"raw": {**reflection.raw, "rr_trace": rr_trace}})
