"""The Reflector: finds out what can be learned from one execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ace._internal.arguments import checked_arguments, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import redactor_for
from ace.logs.trace import StandardTrace, read_trace
from ace.outputs import AgentOutput, ReflectorOutput
from ace.protocols.errors import ContextLimitError
from ace.protocols.llm import AnyLLMClient
from ace.protocols.roles import SkillbookReader
from ace.roles.prompts import (
    REFLECTOR_PROMPT,
    Fence,
    PromptTemplate,
    format_optional,
    recent_reflections_section,
    skills_for_reflection,
)
from ace.roles.rendering import (
    fit,
    fitted_sections,
    sections_as_text,
    sections_of,
    sections_of_first_failure,
    size_in_bytes,
)
from ace.roles.role_answers import checked_client, usable_answer
from ace.skill import SkillCase
from ace.skillbook import PromptParts

__all__ = ["Reflector"]

_FIELDS = ("question", "reasoning", "answer", "ground_truth", "feedback")
_BYTES_PER_TOKEN = 3
"""UTF-8 bytes. English text has more than four per token, code and most other languages about three."""
_TOKENS_FOR_UNKNOWN_MODEL = 32_000
_MOST_TOKENS = 200_000
_FEWEST_BYTES = 300
"""A record that must be shorter than this shows nothing of a trace."""
_SHARE_OF_INPUT = 0.6
_SHARE_FOR_RECENT = 0.25


class Execution(NamedTuple):
    """The information about one execution that a reflector gets."""

    question: str
    agent_output: AgentOutput
    ground_truth: str
    feedback: str
    trace: object
    cases: Sequence[SkillCase] | None
    recent: Sequence[str] = ()
    read: StandardTrace | None = None
    """The trace as it was read; None if it was not."""


class _Record(NamedTuple):
    """The record of an execution, shortened to the maximum size."""

    values: dict[str, str]
    cut_characters: int


class Reflector:
    """Finds out what can be learned from one execution.

    The model sees the whole trace, which may have any type. Texts that are too long are cut in the middle, with a mark;
    `raw["cut_characters"]` of the output counts the characters. Then the first failed call, its error and the call that
    worked are shown before the rest, as far as they fit into half of the record. One reflection requests at most
    `max_retries + 1` answers from the model.

    Args:
        llm: The client of the model.
        prompt_template: A template with at least one of the placeholders `question` and `trace`, and optionally
            `reasoning`, `answer`, `ground_truth`, `feedback` and `skillbook_excerpt`.
        max_retries: How often the model is asked again if an answer is not usable.
        max_trace_tokens: The maximum size of the record of the execution, in tokens. The default is 60 % of the size
            of the model's input, but at most 200,000; 32,000 if the model is not known. A trace that is still too long
            for the context window is shortened further.

    Raises:
        ValueError: The template has an unknown placeholder, or neither `question` nor `trace`.
    """

    @checked_arguments()
    def __init__(
        self,
        llm: AnyLLMClient,
        prompt_template: str = REFLECTOR_PROMPT,
        *,
        max_retries: int = 3,
        max_trace_tokens: int | None = None,
    ) -> None:
        self.llm = checked_client(llm)
        self.max_retries = whole_number("max_retries", max_retries, least=0)
        if max_trace_tokens is not None:
            whole_number("max_trace_tokens", max_trace_tokens)
        self.max_trace_tokens = max_trace_tokens
        self._template = PromptTemplate(
            prompt_template,
            role="Reflector",
            known=(*_FIELDS, "trace", "skillbook_excerpt"),
            needed=("question", "trace"),
        )

    @property
    def prompt_template(self) -> str:
        """The prompt template as text."""
        return self._template.text

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        *,
        cases: Sequence[SkillCase] | None = None,
        recent_reflections: Sequence[str] = (),
        standard_trace: StandardTrace | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Reflect on one execution.

        Args:
            question: The question or task; empty if it is not known.
            agent_output: The answer of the agent, with its reasoning.
            skillbook: The skills that the agent had; the model sees those that it cited, and those that fit the task.
            ground_truth: The right answer, if known.
            feedback: The feedback of an environment, if there is any.
            cases: The cases to learn from, if known; only `SmallModelReflector` uses them.
            recent_reflections: The most recent reflections on other executions, the newest one last;
                `SmallModelReflector` does not show them.
            standard_trace: The trace as `read_trace` returns it; if it is None, the trace is read.
            **kwargs: `trace` is the whole trace, of any type; others are not sent to the model.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        trace = kwargs.get("trace")
        execution = Execution(
            question,
            agent_output,
            ground_truth or "",
            feedback or "",
            trace,
            cases,
            recent_reflections,
            standard_trace,
        )
        return finished(self._reflected(BLOCKING, execution, skillbook))

    async def areflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        *,
        cases: Sequence[SkillCase] | None = None,
        recent_reflections: Sequence[str] = (),
        standard_trace: StandardTrace | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Reflect on one execution without blocking the event loop; otherwise like `reflect`.

        If the client has no `acomplete_structured`, it is called in a thread.

        Args:
            question: The question or task; empty if it is not known.
            agent_output: The answer of the agent, with its reasoning.
            skillbook: The skills that the agent had; the model sees those that it cited, and those that fit the task.
            ground_truth: The right answer, if known.
            feedback: The feedback of an environment, if there is any.
            cases: The cases to learn from, if known; only `SmallModelReflector` uses them.
            recent_reflections: The most recent reflections on other executions, the newest one last;
                `SmallModelReflector` does not show them.
            standard_trace: The trace as `read_trace` returns it; if it is None, the trace is read.
            **kwargs: `trace` is the whole trace, of any type; others are not sent to the model.

        Raises:
            UnusableAnswerError: The model gave no usable answer.
            LLMCallError: The model could not be reached.
        """
        trace = kwargs.get("trace")
        execution = Execution(
            question,
            agent_output,
            ground_truth or "",
            feedback or "",
            trace,
            cases,
            recent_reflections,
            standard_trace,
        )
        return await self._reflected(ON_LOOP, execution, skillbook)

    async def _reflected(self, calling: Calling, execution: Execution, skillbook: SkillbookReader) -> ReflectorOutput:
        output = execution.agent_output
        fields = {
            "question": execution.question,
            "reasoning": output.reasoning,
            "answer": output.final_answer,
            "ground_truth": execution.ground_truth,
            "feedback": execution.feedback,
        }
        # Reading a large trace would block an event loop for too long.
        trace = await calling.function(lambda: execution.read or read_trace(execution.trace))
        excerpt = await calling.function(lambda: skills_for_reflection(skillbook, execution.question, output.skill_ids))
        most_bytes = self._most_bytes()
        while True:
            recent = recent_reflections_section(execution.recent, int(most_bytes * _SHARE_FOR_RECENT))
            record = await calling.function(partial(self._record, fields, trace, most_bytes - size_in_bytes(recent)))
            values = {**_fenced(record.values), "skillbook_excerpt": format_optional(excerpt)}
            prompt = self._template.lay_out(values, PromptParts("", "", ""), recent=recent)
            try:
                reflection = await self._ask(calling, prompt, output.skill_ids)
                break
            except ContextLimitError:
                # The client may know the window now. If it does not, or the rest of the prompt fills it, halve.
                shown = size_in_bytes(recent, *record.values.values())
                most_bytes = min(self._most_bytes(), shown // 2)
                if most_bytes < _FEWEST_BYTES:
                    raise
        if not record.cut_characters:
            return reflection
        return reflection.model_copy(update={"raw": {**reflection.raw, "cut_characters": record.cut_characters}})

    async def _ask(self, calling: Calling, prompt: str, cited: Sequence[str]) -> ReflectorOutput:
        return await usable_answer(
            calling, self.llm, prompt, ReflectorOutput, _problem, role="Reflector", max_retries=self.max_retries
        )

    def _record(self, fields: Mapping[str, str], trace: StandardTrace, most_bytes: int) -> _Record:
        """Shorten the fields that the template shows, and the parts of the trace that are not among them."""
        redactor = redactor_for(self.llm)
        shown = {name: redactor.redact(text) for name, text in fields.items() if name in self._template.placeholders}
        if "trace" not in self._template.placeholders:
            fitted = fit(list(shown.values()), most_bytes)
            return _Record(dict(zip(shown, fitted.texts, strict=True)), fitted.cut_characters)
        known = [name for name in shown if (trace.get(name) or "") == fields[name]]
        sections = [
            section._replace(text=redactor.redact(section.text)) for section in sections_of(trace, without=known)
        ]
        texts = [*shown.values(), sections_as_text(sections)]
        fitted, failure = fit(texts, most_bytes), ""
        if fitted.cut_characters:
            # What decides is often in the middle of a long run, where the cut would be.
            found = [
                section._replace(text=redactor.redact(section.text)) for section in sections_of_first_failure(trace)
            ]
            failure, _ = fitted_sections(found, most_bytes // 2)
            fitted = fit(texts, most_bytes - size_in_bytes(failure))
        room = len(fitted.texts[-1].encode())
        text, cut_of_trace = fitted_sections(sections, room)
        record = f"{failure}\n\n{text}" if failure else text
        values = {**dict(zip(shown, fitted.texts, strict=False)), "trace": record}
        return _Record(values, sum(fitted.cuts[:-1]) + cut_of_trace)

    def _most_bytes(self) -> int:
        return (self.max_trace_tokens or self._tokens_by_model()) * _BYTES_PER_TOKEN

    def _tokens_by_model(self) -> int:
        limit = getattr(self.llm, "input_token_limit", None)
        if not isinstance(limit, int):
            return _TOKENS_FOR_UNKNOWN_MODEL
        return min(_MOST_TOKENS, int(limit * _SHARE_OF_INPUT))


def _fenced(values: Mapping[str, str]) -> dict[str, str]:
    fence = Fence(values.values())
    return {name: fence.around(text) if text else format_optional(None) for name, text in values.items()}


def _problem(output: ReflectorOutput) -> str | None:
    texts = (output.reasoning, output.root_cause_analysis, output.correct_approach, output.key_insight)
    if not any(text.strip() for text in texts) and not output.extracted_learnings:
        return "the reflection is empty"
    return None
