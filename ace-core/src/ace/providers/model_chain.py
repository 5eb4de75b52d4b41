"""Asks a model until it answers, and then its fallbacks."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace.calls.calling import Calling
from ace.protocols.errors import LLMAuthenticationError, LLMCallError
from ace.protocols.llm import LLMResponse, Usage
from ace.providers import litellm_library
from ace.providers.answer_schemas import accepted_schema
from ace.providers.litellm_config import LiteLLMConfig, Message
from ace.providers.own_server import is_on_own_server
from ace.providers.request_outcomes import Answered, Failed
from ace.providers.usage import UsageAccount

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["ModelChain"]

_logger = logging.getLogger("ace.providers.litellm")
_REFUSED = (400, 415, 422, 501)
_REFUSES_SCHEMA = re.compile(r"response.?format|schema|grammar|structured", re.IGNORECASE)
_SCHEMA_NOT_KEPT = 500
"""What llama.cpp answers when it cannot read what it has constrained itself; the next answer may be fine."""


class ModelChain:
    """A model and its fallbacks, with the account of all their requests. It may be used from several threads.

    Args:
        configs: The settings of each model, in the order in which they are tried.

    Raises:
        ValueError: A setting for retries is out of range.
    """

    def __init__(self, configs: Sequence[LiteLLMConfig]) -> None:
        self.configs = tuple(configs)
        for config in self.configs:
            # Bad numbers are told at construction, not in the middle of a run.
            _ = config.retry_policy
        self.account = UsageAccount()
        self._takes_no_schema: set[int] = set()

    async def ask(
        self,
        calling: Calling,
        messages: Sequence[Message],
        overrides: Mapping[str, Any],
        response_model: type[BaseModel] | None,
    ) -> tuple[str, LLMResponse]:
        """Return the model that answered, and its answer.

        Args:
            calling: How requests are made and waited for.
            messages: Chat messages.
            overrides: Settings for this call.
            response_model: What the answer has to validate as; own servers are asked to hold the model to it.

        Raises:
            LLMAuthenticationError: The key is missing or was refused.
            LLMCallError: No model answered.
        """
        attempts = 0
        failed = Failed("no request was made", None)
        for place, config in enumerate(self.configs):
            outcome, made = await self._ask_held(calling, place, config.request(messages, overrides), response_model)
            attempts += made
            if isinstance(outcome, Answered):
                return config.model, outcome.response
            failed = outcome
            if place + 1 < len(self.configs):
                following = self.configs[place + 1].model
                _logger.warning("model %r failed (%s); trying %r", config.model, failed.reason, following)
        raise _call_error(failed, self.configs[-1].model, attempts)

    async def _ask_held(
        self, calling: Calling, place: int, request: Mapping[str, Any], response_model: type[BaseModel] | None
    ) -> tuple[Answered | Failed, int]:
        """Ask one model, held to the schema of the answer where its server can do that."""
        if (
            response_model is None
            or "response_format" in request
            or place in self._takes_no_schema
            or not is_on_own_server(request["model"], request.get("api_base"))
        ):
            return await self._ask_until_answered(calling, place, request)
        held = {**request, "response_format": accepted_schema(response_model)}
        outcome, made = await self._ask_until_answered(calling, place, held, at_once=(_SCHEMA_NOT_KEPT, *_REFUSED))
        is_refusal = isinstance(outcome, Failed) and _is_refusal_of_schema(outcome)
        if isinstance(outcome, Answered) or not (is_refusal or outcome.status_code == _SCHEMA_NOT_KEPT):
            return outcome, made
        outcome, more = await self._ask_until_answered(calling, place, request, before=made - 1)
        if isinstance(outcome, Answered) and is_refusal:
            self._takes_no_schema.add(place)
        return outcome, more + 1

    async def _ask_until_answered(
        self,
        calling: Calling,
        place: int,
        request: Mapping[str, Any],
        *,
        before: int = 0,
        at_once: Sequence[int] = (),
    ) -> tuple[Answered | Failed, int]:
        """Send a request until it is answered or another attempt cannot help.

        Args:
            calling: How requests are made and waited for.
            place: Which model of the chain it is for.
            request: The arguments of `litellm.completion`.
            before: The attempts that were made already.
            at_once: The statuses of failures that are not tried again.
        """
        config = self.configs[place]
        policy = config.retry_policy
        attempt = before
        while True:
            attempt += 1
            outcome: Answered | Failed = await calling.method(litellm_library, "send", request)
            if isinstance(outcome, Answered):
                self.account.add(outcome.response.usage)
                return outcome, attempt
            self.account.add(Usage(failed_requests=1))
            worth_it = not outcome.is_authentication and policy.is_worth_retrying(outcome.status_code)
            if not worth_it or attempt > policy.max_retries or outcome.status_code in at_once:
                return outcome, attempt
            delay = policy.delay(attempt, outcome.retry_after)
            _logger.info(
                "model %r: %s; retry %d of %d in %.2f s",
                config.model,
                outcome.reason,
                attempt,
                policy.max_retries,
                delay,
            )
            await calling.sleep(delay)


def _is_refusal_of_schema(failed: Failed) -> bool:
    return failed.status_code in _REFUSED and _REFUSES_SCHEMA.search(failed.reason) is not None


def _call_error(failed: Failed, model: str, attempts: int) -> LLMCallError:
    requests = f"{attempts} request" if attempts == 1 else f"{attempts} requests"
    if not failed.is_authentication:
        return LLMCallError(
            f"model {model!r} gave no answer after {requests}: {failed.reason}",
            model=model,
            status_code=failed.status_code,
            attempts=attempts,
            problem=failed.problem,
        )
    if failed.missing_variables:
        what_to_do = f"set the environment variable {' or '.join(failed.missing_variables)}"
    else:
        what_to_do = "check the key"
    return LLMAuthenticationError(
        f"model {model!r}: the key is missing or was refused; {what_to_do}. Reason: {failed.reason}",
        model=model,
        status_code=failed.status_code,
        attempts=attempts,
        missing_variables=failed.missing_variables,
    )
