"""Requests the answer of a model for a role: checks that it is usable, records it in a run, and redacts keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ace._internal.arguments import with_method
from ace.calls.calling import Calling, call_client
from ace.calls.model_calls import (
    AnswerProblem,
    CallScope,
    RejectedAnswer,
    answer_budget,
    call_scope,
    current_call_scope,
    note_model_call,
    redactor_for,
    until_usable,
)
from ace.calls.secrets import known_secrets, redact
from ace.protocols.errors import LLMCallError, UnusableAnswerError
from ace.protocols.llm import AnyLLMClient, LayeredPrompt, StructuredAnswer, Usage

__all__ = ["checked_client", "usable_answer"]


def checked_client(llm: AnyLLMClient) -> AnyLLMClient:
    """Return the client of a role.

    Raises:
        TypeError: The object is not a client.
    """
    advice = "give one, such as LiteLLMClient(model)"
    if isinstance(llm, str):
        advice = f"LiteLLMClient({llm!r}) is one, and the method from_model() of a runner takes a name"
    with_method("the client of a role", llm, "complete_structured", advice=advice)
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
    """Ask until an answer validates and is usable.

    At most `max_retries + 1` answers are requested, including those that the client rejects itself because they do not
    validate. The keys of the client and of the environment are redacted in the returned answer.

    Args:
        calling: How the client is called.
        llm: The client of the role.
        prompt: The whole prompt.
        response_model: The class of the answer.
        problem_with: Returns the reason why an answer is not usable, or None.
        role: The name of the role, for errors.
        max_retries: How often to ask again.

    Raises:
        UnusableAnswerError: No answer is usable; the error carries the raw answers.
        LLMCallError: The model could not be reached.
        RoleError: The client returned an object that is not an instance of the class.
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
            # The client has already asked again, and no answer validates.
            raw_answers = budget.answers or error.raw_answers
            raise UnusableAnswerError(error.problem, raw_answers=raw_answers, role=role) from error
        except LLMCallError as error:
            error.role = error.role or role
            raise


def _asked_again(prompt: str, problem: str) -> str:
    request = f"# Your last answer\n\nYour last answer could not be used: {problem}. Give a better one.\n"
    if isinstance(prompt, LayeredPrompt):
        return prompt.followed_by(request)
    return f"{prompt.rstrip()}\n\n{request}"


def _scope_of(role: str) -> CallScope:
    """Return the scope of the calls; outside a run, it only contains the role."""
    scope = current_call_scope()
    return scope if scope.role else replace(scope, role=role)


async def _structured_answer(
    calling: Calling, llm: AnyLLMClient, prompt: str, response_model: type[StructuredAnswer]
) -> StructuredAnswer:
    """Ask the client. In a run that records answers, record the answer if the client does not do so itself."""
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
        if known == text:  # otherwise another process recorded an answer first, and that one counts
            return answer
    else:
        note_model_call(str(getattr(llm, "model", type(llm).__name__)), Usage(calls=1), 0.0, recorded=True)
    return response_model.model_validate_json(known)


def _without_keys(answer: StructuredAnswer, secrets: Sequence[str]) -> StructuredAnswer:
    """Redact the keys in an answer, which the model may have seen in a trace or in a server's response."""
    text = answer.model_dump_json()
    hidden = redact(text, secrets)
    return answer if hidden == text else type(answer).model_validate_json(hidden)


def _raw_text(answer: StructuredAnswer) -> str:
    raw = getattr(answer, "raw", None)
    return json.dumps(raw, ensure_ascii=False) if raw else answer.model_dump_json(exclude={"raw"})
