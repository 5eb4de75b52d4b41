"""The cases of a trace, from the corrections in it and from those that the reflector recognises before it reflects."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from ace.calls.calling import Calling, call_role
from ace.calls.model_calls import current_call_scope, redactor_for
from ace.calls.sample_context import model_calls_for
from ace.cases import judged_trace, replies_in
from ace.proof.trace_facts import secrets_of, traces_of, with_cases
from ace.protocols.roles import FindsJudgementsLike

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.logs.trace import StandardTrace
    from ace.redaction import Redactor

__all__ = ["JUDGEMENT_ROLE", "with_judged_cases"]

JUDGEMENT_ROLE = "Judgements"
"""The role under which the calls that recognise judgements are counted and recorded."""


async def with_judged_cases(
    calling: Calling,
    ctx: ACEStepContext,
    read: StandardTrace,
    reflector: object,
    *,
    agent: object = None,
    allow: Collection[str] = (),
    can_be_asked_again: bool = False,
) -> tuple[ACEStepContext, StandardTrace]:
    """Return the context with the secrets and cases of its traces, and the trace with its corrections.

    Those of a group are the cases of each of its traces. A reflector that satisfies `FindsJudgementsLike` is asked
    first, if a person wrote something after an answer.

    Args:
        calling: How the reflector is called.
        ctx: The context.
        read: Its trace, as `read_trace` returns it.
        reflector: The reflector; None if there is none.
        agent: The agent that will be asked; the keys of its client are redacted.
        allow: The classes of sensitive text that are not redacted.
        can_be_asked_again: As for `ace.cases.cases_of`.
    """
    if "trace_secrets" not in ctx.metadata:
        secrets = await calling.function(partial(secrets_of, read, current_call_scope().allow.union(allow)))
        ctx = ctx.replace(metadata={**ctx.metadata, "trace_secrets": secrets})
    if "cases" in ctx.metadata:
        return ctx, read
    with model_calls_for(ctx, JUDGEMENT_ROLE, allow=allow):
        redactor = redactor_for(*(getattr(role, "llm", None) for role in (reflector, agent)))
        traces = dict(await calling.function(partial(traces_of, ctx, read)))
        if isinstance(reflector, FindsJudgementsLike):
            for name, (trace, found) in traces.items():
                judged = await _judged(calling, found, reflector, redactor)
                traces[name] = trace, judged
                read = judged if found is read else read
        cases = partial(with_cases, ctx, traces, redactor, can_be_asked_again=can_be_asked_again)
        return await calling.function(cases), read


async def _judged(
    calling: Calling, read: StandardTrace, reflector: FindsJudgementsLike, redactor: Redactor
) -> StandardTrace:
    if read["corrections"] or not replies_in(read):
        return read
    found = await call_role(calling, "reflector", reflector, "find_judgements", list, {"trace": read})
    return await calling.function(partial(judged_trace, read, found, redactor))
