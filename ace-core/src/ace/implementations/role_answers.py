"""The answer of a model to what a role asks: usable, recorded where a run records answers, and without keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ace.arguments import with_method
from ace.calls.calling import Calling
from ace.calls.model_calls import (
    CallScope,
    answer_budget,
    call_scope,
    current_call_scope,
    note_model_call,
    redactor_for,
)
from ace.calls.role_calls import call_client
from ace.calls.secrets import known_secrets, redact
from ace.calls.usable_answers import AnswerProblem, RejectedAnswer, until_usable
from ace.protocols.errors import LLMCallError, UnusableAnswerError
from ace.protocols.llm import AnyLLMClient, StructuredAnswer, Usage

__all__ = ["checked_client", "usable_answer"]


def checked_client(llm: AnyLLMClient) -> AnyLLMClient:
    """Return the client of a role, or say what is wrong with it.

    Args:
        llm: The client.

    Raises:
        TypeError: It is not a client.
    """
    with_method("the client of a role", llm, "complete_structured", advice="give one, such as LiteLLMClient(model)")
    return llm


async def usable_answer(
    calling: Calling,
    llm: AnyLLMClient,
    prompt: str,
    response_model: type[StructuredAnswer],
    problem_with: Callable[[StructuredAnswer], str | None],
    *,
    role: str,
    max_retries: int,
) -> StructuredAnswer:
    """Ask until an answer validates and can be used.

    At most `max_retries + 1` answers are asked for in all. Answers that do not validate, which the
    client asks for again by itself, count among them. The keys of the client and of the environment are hidden in
    what is returned.

    Args:
        calling: How the client is called.
        llm: The client.
        prompt: The whole prompt.
        response_model: The class of the answer.
        problem_with: Says what makes an answer unusable, or returns None.
        role: The name of the role, for errors.
        max_retries: How often to ask again.

    Raises:
        UnusableAnswerError: No answer can be used; it carries the raw answers.
        LLMCallError: The model could not be reached.
        RoleError: The client returned something else than an answer of this class.
    """

    async def ask(rejected: RejectedAnswer | None) -> StructuredAnswer:
        asked = prompt if rejected is None else _asked_again(prompt, rejected.problem)
        return await _structured_answer(calling, llm, asked, response_model)

    def read(answer: StructuredAnswer) -> StructuredAnswer:
        shown = _without_keys(answer, known_secrets(llm))
        problem = problem_with(shown)
        if problem is not None:
            raise AnswerProblem(problem)
        return shown

    with answer_budget(max_retries + 1) as budget, call_scope(_scope_of(role)):
        try:
            return await until_usable(ask, read, text_of=_raw_text, max_retries=max_retries, role=role)
        except UnusableAnswerError as error:
            if error.role:
                raise
            # The client has asked again by itself, and no answer validates.
            raw_answers = budget.answers or error.raw_answers
            raise UnusableAnswerError(error.problem, raw_answers=raw_answers, role=role) from error
        except LLMCallError as error:
            error.role = error.role or role
            raise


def _asked_again(prompt: str, problem: str) -> str:
    return (
        f"{prompt.rstrip()}\n\n# Your last answer\n\n"
        f"Your last answer could not be used: {problem}. Give a better one.\n"
    )


def _scope_of(role: str) -> CallScope:
    """Return what the calls are for; outside a run, the role is all that is known."""
    scope = current_call_scope()
    return scope if scope.role else replace(scope, role=role)


async def _structured_answer(
    calling: Calling, llm: AnyLLMClient, prompt: str, response_model: type[StructuredAnswer]
) -> StructuredAnswer:
    """Ask the client. Where a run records answers, those of a client that does not do so are recorded here."""
    answers = current_call_scope().answers
    if answers is None:
        return await call_client(calling, llm, prompt, response_model)
    request = json.dumps([response_model.__name__, prompt])
    kind = json.dumps([type(llm).__name__, str(getattr(llm, "model", "")), response_model.__name__])
    known = await calling.function(partial(answers.next, request, kind))
    if known is None:
        used_before = answers.used
        answer = await call_client(calling, llm, prompt, response_model)
        if answers.used > used_before:
            return answer
        text = json.dumps(redactor_for(llm).redact_value(answer.model_dump(mode="json")))
        known = await calling.function(partial(answers.keep, request, text, kind))
        if known == text:  # else another process was first, and its answer counts
            return answer
    else:
        note_model_call(str(getattr(llm, "model", type(llm).__name__)), Usage(calls=1), 0.0, recorded=True)
    return response_model.model_validate_json(known)


def _without_keys(answer: StructuredAnswer, secrets: Sequence[str]) -> StructuredAnswer:
    """Return the answer with every key hidden that a trace, or a server, has shown to the model."""
    text = answer.model_dump_json()
    hidden = redact(text, secrets)
    return answer if hidden == text else type(answer).model_validate_json(hidden)


def _raw_text(answer: StructuredAnswer) -> str:
    raw = getattr(answer, "raw", None)
    return json.dumps(raw, ensure_ascii=False) if raw else answer.model_dump_json(exclude={"raw"})
