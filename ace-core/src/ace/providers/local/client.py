"""`LocalLLMClient`: a language model that runs in this process, without a key and without a network.

`constraint` returns the JSON schema that constrains an answer, `described` the instruction that describes it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ace._internal.arguments import checked_arguments, real_number, whole_number
from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished
from ace.calls.model_calls import current_call_scope, keep_response, note_response, recorded_response
from ace.protocols.errors import LLMCallError
from ace.protocols.llm import LLMResponse, StructuredAnswer, Usage
from ace.providers.local.catalogue import DEFAULT_MODEL
from ace.providers.local.model_files import model_file
from ace.providers.local.server import Reply, ServerSettings, answer_in, refusal_in, shared_server
from ace.providers.request_outcomes import UsageAccount
from ace.providers.structured_answers import described, prompt_messages, structure_of, valid_answer

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["LocalLLMClient", "client_of_model_string", "constraint", "described"]

_CHAT = "/v1/chat/completions"


class LocalLLMClient:
    """Calls a language model on this machine; it satisfies `LLMClientLike` and may be used from several threads.

    The model is loaded on the first call, once in a process for all clients with the same settings, and stays
    loaded until the process exits. Structured answers are constrained by their JSON schema while they are
    written.

    Args:
        model: A name of the catalogue (`ace models list`), or the path of any GGUF file.
        max_tokens: The maximum length of an answer, in tokens.
        temperature: The sampling temperature.
        seed: The seed of sampling.
        timeout: The time limit of one answer, in seconds.
        validation_retries: How often the model is asked again if a structured answer does not validate.
        context_tokens: The maximum size of a prompt and its answer together, in tokens; more take more memory.
        slots: The number of requests answered concurrently; on few cores, four have twice the throughput of one.
        threads: The number of threads that compute; by default one for each core that this process may use.
        repeatable: Whether equal requests always get equal answers, even after a restart. This is slower:
            there is one slot, and no prompt is reused.

    Raises:
        ValueError: A number is out of range.

    Example:
        >>> client = LocalLLMClient("qwen2.5-coder-1.5b", max_tokens=200)
        >>> client
        LocalLLMClient('qwen2.5-coder-1.5b')
        >>> client.usage.calls
        0
    """

    @checked_arguments()
    def __init__(
        self,
        model: str | os.PathLike[str] = DEFAULT_MODEL,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        seed: int = 0,
        timeout: float = 600.0,
        validation_retries: int = 2,
        context_tokens: int = 8192,
        slots: int = 4,
        threads: int | None = None,
        repeatable: bool = False,
    ) -> None:
        self.model = os.fspath(model)
        for name, number in (("max_tokens", max_tokens), ("slots", slots), ("threads", threads)):
            if number is not None:
                whole_number(name, number)
        real_number("timeout", timeout, above=0, of="seconds")
        real_number("temperature", temperature, least=0)
        whole_number("validation_retries", validation_retries, least=0)
        whole_number("context_tokens", context_tokens)
        if context_tokens <= max_tokens:
            raise ValueError(f"context_tokens ({context_tokens}) must be larger than max_tokens ({max_tokens})")
        self.context_tokens = context_tokens
        self.repeatable = repeatable
        self._slots = 1 if repeatable else slots
        self._threads = threads if threads is not None else _usable_cores()
        self._request = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        self._timeout = timeout
        self._validation_retries = validation_retries
        self._account = UsageAccount()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def usage(self) -> Usage:
        """The total usage of all calls of this client. The cost is always 0."""
        return self._account.total

    @property
    def is_small_model(self) -> bool:
        """True: the roles use shorter prompts with examples for such a model."""
        return True

    @property
    def input_token_limit(self) -> int:
        """The maximum size of a prompt, in tokens."""
        return self.context_tokens - int(self._request["max_tokens"])

    def load(self) -> None:
        """Load the model now instead of on the first call.

        Raises:
            LocalModelError: The model is not on this machine, or cannot be loaded. The text says what to do.
        """
        shared_server(self._server_settings())

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; everything else is a setting of llama.cpp's chat requests
                for this call, such as `max_tokens`, `temperature` or `stop`.

        Raises:
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return self.complete_messages(_messages(prompt, kwargs), **kwargs)

    async def acomplete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt from asynchronous code; otherwise like `complete`. No thread waits for the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: As for `complete`.

        Raises:
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return await self.acomplete_messages(_messages(prompt, kwargs), **kwargs)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        The fields are described in the system message, which stays the same and so is read only once. An answer that
        nevertheless does not validate is asked for again, with the error shown to the model.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return finished(self._structured(BLOCKING, prompt, response_model, kwargs))

    async def acomplete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Request a structured answer from asynchronous code; otherwise like `complete_structured`.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return await self._structured(ON_LOOP, prompt, response_model, kwargs)

    async def _structured(
        self, calling: Calling, prompt: str, response_model: type[StructuredAnswer], options: dict[str, Any]
    ) -> StructuredAnswer:
        # A prompt with examples of its answer needs no description of fields, which distracts a small model from them.
        fields = described(response_model) if _has_descriptions(response_model) else ""
        system = "\n\n".join(filter(None, (options.pop("system", None), fields)))
        schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": constraint(response_model)}}
        settings = {"response_format": schema, **options}
        max_tokens = int(settings.get("max_tokens", self._request["max_tokens"]))
        longer = min(2 * max_tokens, self.context_tokens // 2)

        async def ask_longer(messages: list[dict[str, Any]]) -> LLMResponse:
            return await self._complete(calling, messages, {**settings, "max_tokens": longer})

        return await valid_answer(
            lambda messages: self._complete(calling, messages, settings),
            prompt,
            response_model,
            system=system,
            max_retries=self._validation_retries,
            shows_schema=False,
            ask_longer=ask_longer if longer > max_tokens else None,
        )

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages and return the answer.

        Inside a run that records answers, one that was recorded before the run was killed is returned at once, and
        a new one is recorded before it is returned.

        Args:
            messages: Messages in OpenAI's format, with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return finished(self._complete(BLOCKING, messages, kwargs))

    async def acomplete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages from asynchronous code; otherwise like `complete_messages`.

        Args:
            messages: Messages in OpenAI's format, with `role` and `content`.
            **kwargs: Settings for this call.

        Raises:
            LocalModelError: The model is not on this machine, or cannot be loaded.
            LLMCallError: The model gave no answer.
        """
        return await self._complete(ON_LOOP, messages, kwargs)

    async def _complete(
        self, calling: Calling, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
    ) -> LLMResponse:
        request = {**self._request, "messages": list(messages), **settings}
        answers = current_call_scope().answers
        asked = "" if answers is None else json.dumps([self.model, request], sort_keys=True, default=str)
        kind = (
            ""
            if answers is None
            else json.dumps([self.model, {**self._request, **settings}], sort_keys=True, default=str)
        )
        known = None if answers is None else await calling.function(partial(answers.next, asked, kind))
        if known is not None:
            response = recorded_response(known)
            note_response(self.model, response, 0.0, messages, recorded=True)
            return replace(response, usage=Usage())
        started = time.monotonic()
        response = await self._ask(calling, request)
        if answers is not None:
            response = await calling.function(partial(keep_response, answers, asked, response, kind=kind))
        sampling = {name: request[name] for name in self._request}
        note_response(self.model, response, time.monotonic() - started, messages, request=sampling)
        return response

    async def _ask(self, calling: Calling, request: Mapping[str, Any]) -> LLMResponse:
        reply = await self._post(calling, request)
        if reply.is_unreadable and "response_format" in request:
            # Our own parser accepts more than the server's.
            self._account.add(Usage(failed_requests=1))
            without = {name: value for name, value in request.items() if name != "response_format"}
            reply = await self._post(calling, without)
        if not reply.is_answer:
            self._account.add(Usage(failed_requests=1))
            raise refusal_in(reply, self.model)
        response = answer_in(reply)
        self._account.add(response.usage)
        return response

    def _server_settings(self) -> ServerSettings:
        path = model_file(self.model).path
        return ServerSettings(path, self._slots, self.context_tokens, self._threads, self.repeatable)

    async def _post(self, calling: Calling, request: Mapping[str, Any]) -> Reply:
        server = await calling.function(lambda: shared_server(self._server_settings()))
        sent = {"cache_prompt": not self.repeatable, **request}
        try:
            reply: Reply = await calling.method(server, "post", _CHAT, sent, self._timeout)
            return reply
        except TimeoutError as error:
            self._account.add(Usage(failed_requests=1))
            raise LLMCallError(
                f"local model {self.model!r}: no answer within {self._timeout:g} s; raise timeout, or lower max_tokens",
                model=self.model,
            ) from error
        except OSError as error:
            self._account.add(Usage(failed_requests=1))
            raise LLMCallError(f"local model {self.model!r} gave no answer: {error}", model=self.model) from error


def _messages(prompt: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a prompt as chat messages; a system message is removed from the settings."""
    return prompt_messages(prompt, system=settings.pop("system", None))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _has_descriptions(response_model: type[BaseModel]) -> bool:
    return any(field.description for field in response_model.model_fields.values())


_Schema = dict[str, Any]


@lru_cache(maxsize=64)
def constraint(response_model: type[BaseModel]) -> _Schema:
    """Return the JSON schema with which the server constrains the answer.

    Every field of an object is required and no other is allowed: a small model omits what is optional.

    Args:
        response_model: The class of the answer.

    Example:
        >>> from ace.outputs import SkillTag
        >>> constraint(SkillTag)["required"]
        ['id', 'tag']
    """
    schema: _Schema = _strict(structure_of(response_model))
    return schema


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {name: _strict(value) for name, value in node.items()}
    if isinstance(kept.get("properties"), dict) and kept["properties"]:
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept


_UNUSED_SETTINGS = ("api_base", "api_key")


def client_of_model_string(model: str, **settings: Any) -> LocalLLMClient:
    """Return a client for the part of a model string after `local/`.

    Args:
        model: A name of the catalogue, or the path of a GGUF file.
        **settings: The arguments of `LocalLLMClient`.

    Raises:
        ValueError: A setting does not apply to a model on this machine.

    Example:
        >>> client_of_model_string("qwen2.5-coder-1.5b", max_tokens=100)
        LocalLLMClient('qwen2.5-coder-1.5b')
    """
    for name in _UNUSED_SETTINGS:
        if settings.pop(name, None) is not None:
            raise ValueError(f"{name} does not apply to a model on this machine: 'local/{model}'")
    return LocalLLMClient(model, **{name: value for name, value in settings.items() if value is not None})
