"""Sub-questions: a second model that code in the session can ask, and the budget that all model calls share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

from ace._internal.arguments import whole_number
from ace.calls.calling import on_threads
from ace.calls.model_calls import current_call_scope
from ace.protocols.llm import LLMResponse, Usage
from ace.protocols.observers import SubQuestionAnswered, emit, is_observed
from ace.roles.prompts import Fence
from ace.rr.config import RRConfig
from ace.rr.conversation import ask_model, check_client, cut_middle
from ace.rr.prompt import prompt_text

__all__ = ["CallBudget", "SubAgentConfig", "SubAgentLLM", "SubQuestion", "create_ask_llm_function"]

_AT_ONCE = 8
_MOST_QUESTIONS = 100
"""How many questions one call of `ask_llm_many` may ask."""
_CHARACTERS_PER_TOKEN = 4
_SYSTEM_PROMPT = prompt_text("sub_agent.md")
_MODES: Final = {"analysis": prompt_text("analysis.md"), "deep_dive": prompt_text("deep_dive.md")}
_USED_UP = "The budget for model calls is used up, so this question was not asked. Submit what you know with FINAL."


@final
class CallBudget:
    """Counts the model calls of one reflection and their cost. Thread-safe.

    Args:
        max_calls: The maximum number of calls.
        max_tokens: The number of tokens after which no further call is made; None for no limit.
        max_cost: The cost after which no further call is made, in US dollars; None for no limit.

    Example:
        >>> budget = CallBudget(2)
        >>> budget.consume(), budget.consume(), budget.consume()
        (True, True, False)
        >>> budget.count, budget.exhausted
        (2, True)
    """

    def __init__(self, max_calls: int, *, max_tokens: int | None = None, max_cost: float | None = None) -> None:
        self.max_calls = whole_number("max_calls", max_calls)
        self.max_tokens = max_tokens
        self.max_cost = max_cost
        self._lock = threading.Lock()
        self._count = 0
        self._tokens = 0
        self._pending = 0
        self._usage = Usage()

    def consume(self, *, reserve: int = 0, even_if_spent: bool = False, tokens: int = 0) -> bool:
        """Count one call, if there is one left.

        Args:
            reserve: The number of calls to reserve for later.
            even_if_spent: Whether to ignore the limits of tokens and cost.
            tokens: The estimated tokens of the call, which count as spent until `spend` or `release`.

        Returns:
            Whether the call may be made.
        """
        with self._lock:
            if self.max_calls - self._count <= reserve or (self._is_spent() and not even_if_spent):
                return False
            self._count += 1
            self._pending += tokens
            return True

    def spend(self, response: LLMResponse, sent_characters: int, *, tokens: int = 0) -> None:
        """Add the tokens and the cost of a call.

        Args:
            response: The answer. If the server reported no tokens, they are estimated from the length of the texts.
            sent_characters: The length of the prompt, in characters.
            tokens: What `consume` was given for this call.
        """
        usage = response.usage
        estimated = (sent_characters + len(response.text)) // _CHARACTERS_PER_TOKEN
        with self._lock:
            self._usage += usage
            self._tokens += usage.total_tokens or estimated
            self._pending -= tokens

    def release(self, tokens: int) -> None:
        """Give back what was reserved for a call that has failed.

        Args:
            tokens: What `consume` was given for this call.
        """
        with self._lock:
            self._pending -= tokens

    @property
    def limits_tokens(self) -> bool:
        """Whether tokens or cost are limited."""
        return self.max_tokens is not None or self.max_cost is not None

    @property
    def count(self) -> int:
        """The number of calls made."""
        return self._count

    @property
    def left(self) -> int:
        """The number of calls that may still be made."""
        return self.max_calls - self._count

    @property
    def usage(self) -> Usage:
        """The total usage that the servers have reported."""
        return self._usage

    @property
    def is_spent(self) -> bool:
        """Whether the limit of tokens or cost is reached."""
        with self._lock:
            return self._is_spent()

    @property
    def exhausted(self) -> bool:
        """Whether no further call can be made."""
        return self.left <= 0 or self.is_spent

    def _is_spent(self) -> bool:
        if self.max_tokens is not None and self._tokens + self._pending >= self.max_tokens:
            return True
        # The price of a call is known only afterwards, so calls that are under way are counted at the mean price.
        pending_cost = self._usage.cost * self._pending / self._tokens if self._tokens else 0.0
        return self.max_cost is not None and self._usage.cost + pending_cost >= self.max_cost


@dataclass(frozen=True, kw_only=True)
class SubAgentConfig:
    """The settings of sub-questions."""

    model: str | None = None
    """The model string; None means that of the client."""
    max_tokens: int = 8192
    """The maximum length of an answer, in tokens."""
    temperature: float = 0.3
    """The sampling temperature."""
    system_prompt: str | None = None
    """The system message; None means the built-in one."""
    max_context_chars: int = 50_000
    """The maximum length of a question with its context, in characters."""

    @classmethod
    def of(cls, config: RRConfig) -> SubAgentConfig:
        """Return the settings of sub-questions in the configuration of a reflection.

        Args:
            config: The configuration.
        """
        return cls(
            model=config.subagent_model,
            max_tokens=config.subagent_max_tokens,
            temperature=config.subagent_temperature,
            system_prompt=config.subagent_system_prompt,
            max_context_chars=config.max_context_chars,
        )


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One answered sub-question, as it is kept in the trace of a reflection."""

    call_number: int
    """Its number in the reflection, from 1."""
    question: str
    """The question."""
    context_length: int
    """The length of the context, in characters."""
    response_length: int
    """The length of the answer, in characters."""
    mode: str
    """`analysis`, `deep_dive`, or `query` for `llm_query`."""
    seconds: float
    """The duration of the call, in seconds."""


@dataclass(frozen=True, slots=True)
class _Asked:
    number: int
    question: str
    context: str
    mode: str
    tokens: int
    """What is reserved for it in the budget."""


class SubAgentLLM:
    """Asks a model sub-questions within a budget, and records them.

    If the model cannot be reached, the error is kept in `failure`, so that code in a session cannot hide it: no further
    question is asked, and the reflection fails.

    Args:
        llm: A client with `complete_messages` or `complete`.
        config: The settings.
        budget: The budget; by default 30 calls.
        reserve: The number of calls to reserve for the main loop.
    """

    def __init__(
        self, llm: Any, config: SubAgentConfig | None = None, *, budget: CallBudget | None = None, reserve: int = 0
    ) -> None:
        check_client("the client for sub-questions", llm)
        self.llm = llm
        self.config = SubAgentConfig() if config is None else config
        self.budget = CallBudget(RRConfig.max_llm_calls) if budget is None else budget
        self.calls: list[SubQuestion] = []
        self.failure: BaseException | None = None
        self._reserve = reserve
        self._lock = threading.Lock()
        self._number = 0

    def ask(self, question: str, context: str = "", mode: str = "analysis") -> str:
        """Ask a question about some material.

        Args:
            context: The material.
            mode: `analysis` for a survey, `deep_dive` for evidence and the root cause.

        Returns:
            The answer; if the budget is used up, a sentence that says so.

        Raises:
            ValueError: The mode is unknown, or the question or the context is not a text.
            RuntimeError: The model could not be reached.
        """
        asked = self._admitted(question, context, mode)
        return _USED_UP if asked is None else self._answer(asked)

    def ask_many(self, questions: Sequence[object]) -> list[str]:
        """Ask several questions, at most eight at once.

        Args:
            questions: At most 100 texts, or mappings with `question` and, optionally, `context` and `mode`.

        Returns:
            The answers, in the order of the questions.

        Raises:
            ValueError: One of the questions is invalid; then none is asked.
            RuntimeError: The model could not be reached.
        """
        if isinstance(questions, str) or not isinstance(questions, Sequence):
            raise ValueError("ask_llm_many takes a list of questions")
        if len(questions) > _MOST_QUESTIONS:
            raise ValueError(f"ask_llm_many takes at most {_MOST_QUESTIONS} questions, got {len(questions):,}")
        parts = [_parts(question) for question in questions]
        for part in parts:
            _check(*part)
        # If tokens or cost are limited, what the answers used has to be known before more is asked.
        group = _AT_ONCE if self.budget.limits_tokens else _MOST_QUESTIONS
        answers: list[str] = []
        for start in range(0, len(parts), group):
            answers += self._answers(parts[start : start + group])
        return answers

    def _answers(self, parts: Sequence[tuple[object, object, object]]) -> list[str]:
        # Admitted one by one before any is asked, so that which ones the budget covers does not depend on timing.
        admitted = [self._admitted(*part) for part in parts]
        answers = iter(on_threads([partial(self._answer, asked) for asked in admitted if asked is not None], _AT_ONCE))
        return [_USED_UP if asked is None else next(answers) for asked in admitted]

    def query(self, prompt: str) -> str:
        """Send a prompt as it is, without a system message.

        Returns:
            The answer; if the budget is used up, a sentence that says so.

        Raises:
            ValueError: The prompt is not a text.
            RuntimeError: The model could not be reached.
        """
        asked = self._admitted(prompt, "", "query")
        return _USED_UP if asked is None else self._answer(asked)

    def _admitted(self, question: object, context: object, mode: object) -> _Asked | None:
        """Return the question with its number, or None if the budget does not cover it."""
        question, context, mode = _check(question, context, mode)
        longest = min(len(question) + len(context), self.config.max_context_chars)
        with self._lock:
            tokens = longest // _CHARACTERS_PER_TOKEN + self._usual_answer()
            if not self.budget.consume(reserve=self._reserve, tokens=tokens):
                return None
            self._number += 1
            return _Asked(self._number, question, context, mode, tokens)

    def _usual_answer(self) -> int:
        """Return the mean length of the answers so far, in tokens."""
        characters = sum(call.response_length for call in self.calls)
        return characters // (_CHARACTERS_PER_TOKEN * len(self.calls)) if self.calls else 0

    def _answer(self, asked: _Asked) -> str:
        if self.failure is not None:
            self.budget.release(asked.tokens)
            raise RuntimeError("an earlier question could not be asked")
        started = time.monotonic()
        messages = self._messages(asked)
        settings: dict[str, Any] = {"max_tokens": self.config.max_tokens, "temperature": self.config.temperature}
        if self.config.model is not None:
            settings["model"] = self.config.model
        try:
            response = ask_model(self.llm, messages, settings, kind="sub-question")
        except BaseException as error:
            self.budget.release(asked.tokens)
            if self.failure is None:
                self.failure = error
            raise RuntimeError("the question could not be asked") from error
        seconds = time.monotonic() - started
        self.budget.spend(response, sum(len(message["content"]) for message in messages), tokens=asked.tokens)
        self._note(asked, response.text, seconds)
        return response.text

    def _messages(self, asked: _Asked) -> list[dict[str, str]]:
        limit = self.config.max_context_chars
        if asked.mode == "query":
            return [{"role": "user", "content": cut_middle(asked.question, limit)}]
        system = f"{self.config.system_prompt or _SYSTEM_PROMPT}\n\n{_MODES[asked.mode]}"
        question = cut_middle(asked.question, limit // 2)
        context = cut_middle(asked.context, max(0, limit - len(system) - len(question) - 100))
        material = f"\n\n{Fence([context]).around(context)}" if context else ""
        return [{"role": "system", "content": system}, {"role": "user", "content": f"{question}{material}"}]

    def _note(self, asked: _Asked, answer: str, seconds: float) -> None:
        call = SubQuestion(asked.number, asked.question, len(asked.context), len(answer), asked.mode, seconds)
        with self._lock:
            self.calls.append(call)
            self.calls.sort(key=lambda record: record.call_number)
        if is_observed():
            scope = current_call_scope()
            emit(
                SubQuestionAnswered(
                    run_id=scope.run_id,
                    trace_id=scope.trace_id,
                    number=asked.number,
                    mode=asked.mode,
                    characters=len(answer),
                    seconds=seconds,
                )
            )


def _check(question: object, context: object, mode: object) -> tuple[str, str, str]:
    if not isinstance(question, str) or not isinstance(context, str):
        raise ValueError("a question and its context must be texts; use json.dumps for other values")
    if mode not in (*_MODES, "query"):
        raise ValueError(f"mode must be {' or '.join(_MODES)}")
    return question, context, str(mode)


def _parts(question: object) -> tuple[object, object, object]:
    if isinstance(question, Mapping):
        unknown = set(question) - {"question", "context", "mode"}
        if unknown or "question" not in question:
            raise ValueError("a question of ask_llm_many is a text, or a dict with question, context and mode")
        return question["question"], question.get("context", ""), question.get("mode", "analysis")
    return question, "", "analysis"


def create_ask_llm_function(
    llm: Any, config: SubAgentConfig | None = None, *, budget: CallBudget | None = None
) -> Callable[..., str]:
    """Return the function `ask_llm(question, context="", mode="analysis")`, the function that sessions call.

    Args:
        llm: A client with `complete_messages` or `complete`.
        config: The settings.
        budget: The budget; by default 30 calls.

    Example:
        >>> from ace.protocols.llm import LLMResponse
        >>> class Parrot:
        ...     def complete_messages(self, messages, **settings):
        ...         return LLMResponse(messages[-1]["content"].upper())
        >>> ask_llm = create_ask_llm_function(Parrot(), budget=CallBudget(1))
        >>> ask_llm("what failed?")
        'WHAT FAILED?'
        >>> ask_llm("and why?")
        'The budget for model calls is used up, so this question was not asked. Submit what you know with FINAL.'
    """
    return partial(SubAgentLLM(llm, config, budget=budget).ask)
