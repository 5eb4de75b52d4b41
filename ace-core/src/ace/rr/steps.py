"""The steps of one turn of a recursive reflection: ask the model, extract its code, execute it, check the result."""

from __future__ import annotations

import ast
import json
import re
import textwrap
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from ace.calls.model_calls import current_call_scope, redactor_for
from ace.outputs import ReflectorOutput
from ace.pipeline import StepContext
from ace.protocols.llm import LLMResponse
from ace.protocols.observers import ReflectionTurn, emit, is_observed
from ace.redaction import Redactor
from ace.roles.small_models import is_small
from ace.rr.config import ReflectionLimitError, RRConfig
from ace.rr.conversation import Message, Turn, ask_model, check_client, cut_middle
from ace.rr.prompt import final_example
from ace.rr.sub_agent import CallBudget, SubAgentLLM

__all__ = [
    "CheckResultStep",
    "ExecutionResultLike",
    "ExtractCodeStep",
    "LLMCallStep",
    "RRIterationContext",
    "SandboxExecStep",
    "SandboxLike",
    "message_to_model",
    "named_items",
    "parsed_reflection",
]

_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?</\1>", re.DOTALL)
_MOST_SHOWN_ERRORS = 10
_NO_CODE = (
    "Your answer contains no Python code. Send the code to execute in one fenced ```python block, for example:\n\n"
    "```python\nprint(trace.summary())\n```\n\nWhen you are done, call FINAL(...) in such a block."
)


class ExecutionResultLike(Protocol):
    """The result of one execution in a sandbox."""

    @property
    def stdout(self) -> str:
        """The output of the code."""

    @property
    def error(self) -> str:
        """The error that ended the code; empty if there was none."""

    @property
    def has_final(self) -> bool:
        """Whether the code submitted a value."""

    @property
    def final(self) -> Any:
        """The submitted value, as JSON."""

    @property
    def session_lost(self) -> bool:
        """Whether a limit has ended the session, with all variables."""

    @property
    def seconds(self) -> float:
        """The duration of the code, in seconds."""


class SandboxLike(Protocol):
    """A session that executes code, such as `TraceSandbox`."""

    def execute(self, code: str) -> ExecutionResultLike:
        """Execute code. Errors of the code are part of the result."""
        ...


@dataclass(frozen=True)
class RRIterationContext(StepContext):
    """The state of one turn of a reflection."""

    messages: tuple[Message, ...] = ()
    """The conversation to send to the model."""
    iteration: int = 1
    """The number of the turn, from 1."""
    llm_response: LLMResponse | None = None
    """The answer of the model."""
    code: str = ""
    """The code in the answer; empty if it has none."""
    direct_response: ReflectorOutput | None = None
    """The reflection in an answer without code."""
    exec_result: ExecutionResultLike | None = None
    """The result of the code."""
    terminated: bool = False
    """Whether a reflection was accepted."""
    reflection: ReflectorOutput | None = None
    """The accepted reflection."""
    feedback_messages: tuple[Message, ...] = ()
    """The reply to the model, which begins the next turn."""
    problem: str = ""
    """Why the turn had no usable result; empty if it only explored the data."""
    has_looked: bool = False
    """Whether an earlier turn has executed code that printed something and ended without an error."""
    is_last: bool = False
    """Whether the budget for model calls leaves only this turn."""
    questions: int = 0
    """The number of sub-questions answered in this turn."""
    seconds: float = 0.0
    """The duration of the model call and the code, in seconds."""
    head: tuple[Message, ...] = ()
    """The messages at the beginning of the conversation, in all turns."""
    turns: tuple[Turn, ...] = ()
    """The earlier turns of the conversation."""
    record: tuple[Mapping[str, Any], ...] = ()
    """The finished turns, for `raw["rr_trace"]`."""
    budget: CallBudget | None = None
    """The budget for model calls of the reflection."""
    sub_agent: SubAgentLLM | None = None
    """The model that the session can ask."""


def message_to_model(text: str, iteration: int, config: RRConfig, *, is_last: bool = False) -> Message:
    """Return a message with the number of the turn, and a note when few turns are left.

    Args:
        text: The message.
        iteration: The turn in which the model reads it.
        config: The configuration.
        is_last: Whether the budget leaves only this turn.

    Example:
        >>> message_to_model("Continue.", 2, RRConfig(max_iterations=3))["content"]
        '[Iteration 2/3] Two iterations are left.\\nContinue.'
    """
    notice = ""
    if is_last or iteration >= config.max_iterations:
        reason = "The budget for model calls is used up. " if is_last else ""
        notice = f" {reason}This is the last iteration: submit your findings with FINAL now."
    elif iteration == config.max_iterations - 1:
        notice = " Two iterations are left."
    number = min(iteration, config.max_iterations)
    return {"role": "user", "content": f"[Iteration {number}/{config.max_iterations}]{notice}\n{text}"}


class LLMCallStep:
    """Sends the conversation to the model.

    Args:
        llm: A client with `complete_messages` or `complete`.
        budget: The budget for model calls.
        reserve: The number of calls to reserve for later.

    Raises:
        TypeError: The client has neither method.
    """

    requires = frozenset({"messages", "is_last"})
    provides = frozenset({"llm_response", "seconds"})

    def __init__(self, llm: Any, budget: CallBudget, *, reserve: int = 0) -> None:
        check_client("the client", llm)
        self.llm = llm
        self.budget = budget
        self.reserve = reserve

    def __call__(self, ctx: RRIterationContext) -> RRIterationContext:
        """Put the answer of the model on the context.

        Raises:
            ReflectionLimitError: The budget is used up.
            LLMCallError: The model could not be reached.
        """
        if not self.budget.consume(reserve=self.reserve, even_if_spent=ctx.is_last):
            raise ReflectionLimitError(
                "the budget for model calls is used up", iterations=ctx.iteration - 1, calls=self.budget.count
            )
        started = time.monotonic()
        response = ask_model(self.llm, ctx.messages, {}, kind="turn")
        self.budget.spend(response, sum(len(message["content"]) for message in ctx.messages))
        return ctx.replace(llm_response=response, seconds=time.monotonic() - started)


class ExtractCodeStep:
    """Finds the code in the answer of the model.

    It looks for fenced `python` or `py` blocks (all of them, as one script), a fence without a language that compiles
    as Python, an indented block, and a call of `FINAL(...)`, in this order. An answer without code may be a reflection
    as a JSON object.
    """

    requires = frozenset({"llm_response"})
    provides = frozenset({"code", "direct_response", "problem"})

    def __call__(self, ctx: RRIterationContext) -> RRIterationContext:
        """Put the code, or else the reflection, on the context."""
        text = ctx.llm_response.text if ctx.llm_response is not None else ""
        code = _code_in(text)
        if code:
            return ctx.replace(code=code, direct_response=None, problem="")
        found = next(_json_objects(text), None)
        if found is None:
            return ctx.replace(code="", direct_response=None, problem=_NO_CODE)
        reflection, problem = parsed_reflection(found)
        return ctx.replace(code="", direct_response=reflection, problem=problem)


class SandboxExecStep:
    """Executes the code in a sandbox.

    Args:
        sandbox: The session, such as a `TraceSandbox`.
        sub_agent: The model that the session can ask. If it could not be reached, the turn fails with its error, even
            if the code has caught the exception.
    """

    requires = frozenset({"code"})
    provides = frozenset({"exec_result", "questions", "seconds"})

    def __init__(self, sandbox: SandboxLike, sub_agent: SubAgentLLM | None = None) -> None:
        self.sandbox = sandbox
        self.sub_agent = sub_agent

    def __call__(self, ctx: RRIterationContext) -> RRIterationContext:
        """Run the code in the sandbox, and put the result on the context: None if the model sent no code.

        Raises:
            LLMCallError: A sub-question could not be asked.
        """
        if not ctx.code:
            return ctx.replace(exec_result=None, questions=0)
        asked_before = self._asked
        started = time.monotonic()
        result = self.sandbox.execute(ctx.code)
        if self.sub_agent is not None and self.sub_agent.failure is not None:
            raise self.sub_agent.failure
        seconds = time.monotonic() - started
        return ctx.replace(exec_result=result, questions=self._asked - asked_before, seconds=ctx.seconds + seconds)

    @property
    def _asked(self) -> int:
        return 0 if self.sub_agent is None else len(self.sub_agent.calls)


class CheckResultStep:
    """Accepts a submitted reflection, or prepares the reply to the model.

    A value submitted with `FINAL` is accepted if the code ran without an error, an earlier turn has printed something,
    and the value is a reflection. In a batch, each of its learnings must name the traces that show it.

    Args:
        config: The configuration.
        llm: The client of the model, whose keys are redacted.
        item_ids: The ids of the traces in a batch.
    """

    requires = frozenset({"iteration", "llm_response", "code", "direct_response", "exec_result"})
    provides = frozenset({"terminated", "reflection", "feedback_messages", "problem", "has_looked", "record"})

    def __init__(self, config: RRConfig, llm: object = None, *, item_ids: Collection[str] = ()) -> None:
        self.config = config
        self.llm = llm
        self.item_ids = item_ids

    def __call__(self, ctx: RRIterationContext) -> RRIterationContext:
        """Put the reflection, or the message for the next turn, on the context."""
        redactor = redactor_for(self.llm)
        reflection, problem = ctx.direct_response, ctx.problem
        if ctx.exec_result is not None:
            reflection, problem = self._submitted(ctx, ctx.exec_result)
        if reflection is not None:
            reflection = _redacted_reflection(reflection, redactor)
        looked = ctx.exec_result is not None and not ctx.exec_result.error and bool(ctx.exec_result.stdout.strip())
        advice = "" if problem else self._advice(ctx, redactor)
        text = (
            problem if ctx.exec_result is None else _report(ctx.exec_result, problem or advice, redactor, self.config)
        )
        feedback = message_to_model(text, ctx.iteration + 1, self.config)
        done = ctx.replace(
            terminated=reflection is not None,
            reflection=reflection,
            problem=problem or (ctx.exec_result.error if ctx.exec_result is not None else ""),
            feedback_messages=(feedback,),
            has_looked=ctx.has_looked or looked,
            record=(*ctx.record, _record_of(ctx, reflection is not None, redactor)),
        )
        _tell(ctx)
        return done

    def _advice(self, ctx: RRIterationContext, redactor: Redactor) -> str:
        """Return how to submit, for a model that repeats itself or has one turn left; otherwise, an empty text.

        A small model gets it after each turn: if the first prompt told it how to submit, it would do so without
        exploring.
        """
        if any(turn["code"] == redactor.redact(ctx.code) for turn in ctx.record):
            advice = "You have sent this code before. Look at something else, or submit what you have found out"
        elif ctx.iteration + 1 >= self.config.max_iterations:
            advice = "Submit what you have found out"
        elif is_small(self.llm):
            advice = "Look at something else if you must. Otherwise submit what the output shows"
        else:
            return ""
        return f"{advice}, in this form:\n\n{final_example(self.llm)}"

    def _submitted(self, ctx: RRIterationContext, result: ExecutionResultLike) -> tuple[ReflectorOutput | None, str]:
        """Return the submitted reflection, or why it is not accepted; an empty text if none was submitted."""
        if not result.has_final:
            return None, ""
        if result.error:
            return None, "FINAL was not accepted, because the code ended with an error. Correct it and submit again."
        if not ctx.has_looked:
            look = "print(item_ids)" if self.item_ids else "print(trace.summary())"
            return None, (
                "FINAL was not accepted: look at the data first. Print the parts of the trace that matter, read the "
                f"output, and submit in a later iteration. For example, send this now:\n\n```python\n{look}\n```"
            )
        reflection, problem = parsed_reflection(result.final)
        if reflection is not None and (unnamed := self._without_items(reflection)):
            reflection = None
            problem = (
                f"The evidence of {unnamed} names no record. Add the ids of all records that show it, in the form "
                "`ids: ID, ID`."
            )
        return reflection, f"FINAL was not accepted. {problem}" if problem else ""

    def _without_items(self, reflection: ReflectorOutput) -> str:
        """Return the names of the learnings that do not name a trace of the batch; empty if all do."""
        if not self.item_ids:
            return ""
        learnings = enumerate(reflection.extracted_learnings)
        return ", ".join(
            f"extracted_learnings[{index}]"
            for index, learning in learnings
            if not named_items(learning.evidence, self.item_ids)
        )


def parsed_reflection(value: object) -> tuple[ReflectorOutput | None, str]:
    """Return the reflection in a JSON value, or the problems of its fields.

    Args:
        value: A JSON value; a text may contain the JSON object.

    Example:
        >>> reflection, problem = parsed_reflection({"reasoning": "It used feet.", "key_insight": "Check units."})
        >>> print(reflection, problem)
        None The value is not a valid reflection:
        - correct_approach: Field required
    """
    if isinstance(value, str):
        value = next(_json_objects(value), value)
    if not isinstance(value, Mapping):
        return None, f"The value must be a dict with the fields of a reflection, got {type(value).__name__}."
    try:
        reflection = ReflectorOutput.model_validate({**value, "raw": {}})
    except ValidationError as error:
        shown = error.errors(include_url=False, include_input=False)[:_MOST_SHOWN_ERRORS]
        lines = [f"- {'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in shown]
        return None, "\n".join(["The value is not a valid reflection:", *lines])
    texts = (reflection.reasoning, reflection.correct_approach, reflection.key_insight)
    if not any(text.strip() for text in texts) and not reflection.extracted_learnings:
        return None, "The reflection is empty."
    return reflection, ""


def named_items(evidence: str, item_ids: Collection[str]) -> list[str]:
    """Return the traces of a batch that a text names, in their order.

    Args:
        evidence: The text. If it contains `ids:`, only what follows is read.
        item_ids: The ids of the traces.

    Example:
        >>> named_items("ids: run-12, logs/a.jsonl#3.", ["run-1", "run-12", "a.jsonl#3", "logs/a.jsonl#3"])
        ['run-12', 'logs/a.jsonl#3']
    """
    listed = evidence.partition("ids:")[2] or evidence
    # The characters around it must not make it a part of a longer id.
    return [id for id in item_ids if re.search(rf"(?<![\w./#-]){re.escape(id)}(?![\w-]|[./#]\w)", listed)]


def _report(result: ExecutionResultLike, problem: str, redactor: Redactor, config: RRConfig) -> str:
    """Return the reply to the model about an execution."""
    output = cut_middle(redactor.redact(result.stdout), config.max_output_chars)
    parts = [f"Output:\n{output}"] if output else []
    if not output and not problem:
        parts.append("The code printed nothing. Print what you want to see.")
    if result.error:
        parts.append(f"Error:\n{cut_middle(redactor.redact(result.error), config.max_output_chars)}")
    if result.session_lost:
        parts.append("The session was ended by this error and a new one was started: your variables are gone.")
    if problem:
        parts.append(problem)
    return "\n\n".join(parts)


def _redacted_reflection(reflection: ReflectorOutput, redactor: Redactor) -> ReflectorOutput:
    return ReflectorOutput.model_validate(redactor.redact_value(reflection.model_dump(mode="json")))


def _record_of(ctx: RRIterationContext, terminated: bool, redactor: Redactor) -> dict[str, Any]:
    result, response = ctx.exec_result, ctx.llm_response
    return {
        "iteration": ctx.iteration,
        "code": redactor.redact(ctx.code),
        "stdout": redactor.redact(result.stdout) if result is not None else "",
        "stderr": redactor.redact(result.error) if result is not None else "",
        "terminated": terminated,
        "seconds": ctx.seconds,
        "input_tokens": response.usage.input_tokens if response is not None else 0,
        "output_tokens": response.usage.output_tokens if response is not None else 0,
    }


def _tell(ctx: RRIterationContext) -> None:
    if not is_observed():
        return
    scope, result = current_call_scope(), ctx.exec_result
    emit(
        ReflectionTurn(
            run_id=scope.run_id,
            trace_id=scope.trace_id,
            iteration=ctx.iteration,
            code_length=len(ctx.code),
            output_length=len(result.stdout) if result is not None else 0,
            error=result.error if result is not None else "",
            seconds=ctx.seconds,
        )
    )


def _code_in(text: str) -> str:
    """Return the code in an answer; empty if it has none."""
    text = _THOUGHTS.sub("", text, count=1)
    fences = [(match[2].lower(), textwrap.dedent(match[3])) for match in _FENCE.finditer(text)]
    marked = [code for language, code in fences if language in ("python", "py", "python3")]
    if any(code.strip() for code in marked):
        return "\n".join(marked)
    if _is_json_object(text):
        return ""
    bare = [code for language, code in fences if not language and not _is_json_object(code) and _compiles(code)]
    if bare:
        return bare[0]
    return _indented_block(text) or _final_call(text)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _compiles(code: str) -> bool:
    try:
        return bool(ast.parse(code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _indented_block(text: str) -> str:
    """Return the first block of lines that are indented by four spaces or a tab, and compile."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith(("    ", "\t")):
            blocks[-1].append(line)
        elif not line.strip():
            if blocks[-1]:
                blocks[-1].append("")
        elif blocks[-1]:
            blocks.append([])
    candidates = (textwrap.dedent("\n".join(block)).strip("\n") for block in blocks)
    return next((code for code in candidates if code.strip() and _compiles(code)), "")


def _final_call(text: str) -> str:
    """Return the first call of FINAL that compiles, up to its closing parenthesis."""
    for match in re.finditer(r"\bFINAL\(", text):
        for end in _closing_parentheses(text, match.end()):
            code = text[match.start() : end]
            if _compiles(code):
                return code
    return ""


def _closing_parentheses(text: str, start: int) -> Iterator[int]:
    """Yield the ends of a call whose opening parenthesis is before `start`: where the parentheses are balanced."""
    depth, quote, index = 1, "", start
    while index < len(text):
        character = text[index]
        if quote:
            if character == "\\":
                index += 1
            elif text.startswith(quote, index):
                index += len(quote) - 1
                quote = ""
        elif character in "\"'":
            quote = character * 3 if text.startswith(character * 3, index) else character
            index += len(quote) - 1
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0:
                yield index + 1
                return
        index += 1


def _json_objects(text: str) -> Iterator[Mapping[str, Any]]:
    from ace.providers.structured_answers import json_objects

    return iter(json_objects(text))
