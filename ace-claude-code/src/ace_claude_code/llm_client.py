"""`ClaudeCodeLLMClient`, which uses the binary as a client of a language model."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ace.calls import current_call_scope, note_model_call, redactor_for
from ace.integrations import LEARNING_VARIABLE, Record, checked_class, mapping_in, number_in, text_in
from ace.protocols import LLMCallError, LLMResponse, StructuredAnswer, Usage
from ace.providers import UsageAccount, ask_until_valid
from ace_claude_code.account import metrics_of_result
from ace_claude_code.binary import find_claude
from ace_claude_code.execute import check_usage
from ace_claude_code.llm_config import PREFIX, ClaudeCodeLLMConfig
from ace_claude_code.outcome import check_login, problem_in_result
from ace_claude_code.process import ClaudeProcess, FinishedProcess

__all__ = ["ClaudeCodeLLMClient"]

_SYSTEM = "You answer the request of the user. You have no tools and no files."
# Without the settings of the user and the project: no hooks, which could start another learner, no CLAUDE.md and no
# MCP servers.
_ISOLATED = (
    *("-p", "--output-format", "json", "--tools", "", "--setting-sources", "", "--strict-mcp-config"),
    *("--disable-slash-commands", "--no-session-persistence"),
)
# An answer that was cut off has no reason here: the binary reports it as an error.
_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop"}
"""The reasons of the binary, as `LLMResponse` names them."""


@checked_class
class ClaudeCodeLLMClient:
    """Calls a model through the `claude` binary, with the user's login instead of an API key.

    It implements `LLMClientLike` and is thread-safe. The binary runs in an empty folder without tools and without the
    user's settings, hooks and MCP servers, and does not store its sessions.

    Args:
        model: The model, such as `sonnet`; empty for the default of the binary.
        config: All settings; the other arguments are ignored then.
        claude: The path of the binary.
        timeout: The time limit of a call, in seconds.
        api_base: A base URL that replaces that of the login.
        api_key: An API key that is used instead of the login.
        max_tokens: Ignored; accepted because all clients have it. The binary chooses the length itself.
        temperature: Ignored, like `max_tokens`.

    Raises:
        ClaudeNotFoundError: The binary was not found.
    """

    def __init__(
        self,
        model: str = "",
        *,
        config: ClaudeCodeLLMConfig | None = None,
        claude: str | None = None,
        timeout: float | None = 300.0,
        api_base: str | None = None,
        api_key: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> None:
        self.config = config or ClaudeCodeLLMConfig(
            model=model, claude=claude, timeout=timeout, api_base=api_base, api_key=api_key
        )
        self._claude = find_claude(self.config.claude)
        self._account = UsageAccount()

    @classmethod
    def from_config(cls, config: ClaudeCodeLLMConfig) -> Self:
        """Create a client from settings."""
        return cls(config=config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.model!r})"

    @property
    def model(self) -> str:
        """The model string, with the prefix of this client."""
        return self.config.model_string

    @property
    def usage(self) -> Usage:
        """The total usage of all calls of this client."""
        return self._account.total

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; other settings, such as `max_tokens`, are ignored.

        Raises:
            LLMAuthenticationError: The binary is not logged in, or its key was rejected.
            LLMCallError: The binary gave no answer.
        """
        return self._ask(prompt, str(kwargs.get("system") or _SYSTEM), None)

    def complete_messages(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> LLMResponse:
        """Send chat messages and return the answer.

        The binary accepts one prompt and no conversation: the messages are joined, with a heading above each one that
        follows the first.

        Args:
            messages: Messages with `role` and `content`. Those of the role `system` become the system message.
            **kwargs: `model` for another model; other settings, such as `max_tokens`, are ignored.

        Raises:
            LLMAuthenticationError: The binary is not logged in, or its key was refused.
            LLMCallError: The binary gave no answer.
        """
        system = "\n\n".join(str(message["content"]) for message in messages if message["role"] == "system")
        conversation = [message for message in messages if message["role"] != "system"]
        model = str(kwargs.get("model") or self.config.model).removeprefix(f"{PREFIX}/")
        return self._ask(_one_prompt(conversation), system or _SYSTEM, None, model)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        The binary enforces the JSON schema, but also accepts a text as an answer. If an answer does not contain an
        object that validates, the model is asked again.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMAuthenticationError: The binary is not logged in, or its key was rejected.
            LLMCallError: The binary gave no answer.
        """
        system = str(kwargs.get("system") or _SYSTEM)
        schema = json.dumps(response_model.model_json_schema())
        return ask_until_valid(
            lambda messages: self._ask(_one_prompt(messages), system, schema),
            prompt,
            response_model,
            max_retries=self.config.validation_retries,
            shows_schema=False,
        )

    def _ask(self, prompt: str, system: str, schema: str | None, model: str | None = None) -> LLMResponse:
        """Return the recorded answer, or request one and record it."""
        config = self.config if model is None else replace(self.config, model=model)
        answers = current_call_scope().answers
        kind = json.dumps([PREFIX, config.model, system, schema])
        request = json.dumps([kind, prompt])
        known = None if answers is None else answers.next(request, kind)
        if known is not None:
            response = _response(json.loads(known))
            _note(config, response, 0.0, prompt, recorded=True)
            return replace(response, usage=Usage())
        started = time.monotonic()
        try:
            result = _completion(self._claude, config, prompt, system, schema)
        except LLMCallError:
            self._account.add(Usage(failed_requests=1))
            raise
        if answers is not None:
            record = json.dumps(redactor_for(self).redact_value(_lasting(result)))
            kept = answers.keep(request, record, kind)
            result = result if kept == record else json.loads(kept)  # another process was first
        response = _response(result)
        self._account.add(response.usage)
        _note(config, response, time.monotonic() - started, prompt)
        return response


def _note(
    config: ClaudeCodeLLMConfig, response: LLMResponse, seconds: float, prompt: str, *, recorded: bool = False
) -> None:
    note_model_call(
        config.model_string,
        response.usage,
        seconds,
        recorded=recorded,
        finish_reason=response.finish_reason,
        prompt=prompt,
        answer=response.text,
    )


def _one_prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    """Join chat messages to one prompt, because the binary does not accept a conversation."""
    headings = {"assistant": "# Your answer", "user": "# Next message"}
    parts = [str(message["content"]) for message in messages[:1]]
    parts += [f"{headings.get(message['role'], message['role'])}\n\n{message['content']}" for message in messages[1:]]
    return "\n\n".join(parts)


def _lasting(result: Record) -> dict[str, object]:
    """Return the fields of a result that are recorded."""
    kept = ("result", "structured_output", "usage", "total_cost_usd", "num_turns", "duration_ms", "stop_reason")
    return {name: result[name] for name in kept if name in result}


def _response(result: Record) -> LLMResponse:
    numbers, tokens = metrics_of_result(result), mapping_in(result, "usage")
    usage = Usage(
        calls=1,
        input_tokens=int(numbers.get("input_tokens", 0)),
        output_tokens=int(numbers.get("output_tokens", 0)),
        cost=numbers.get("cost_usd", 0.0),
        unpriced_calls=0 if "cost_usd" in numbers else 1,
        cached_input_tokens=int(number_in(tokens, "cache_read_input_tokens") or 0),
        cache_write_tokens=int(number_in(tokens, "cache_creation_input_tokens") or 0),
    )
    # If the model answered with an object, its text only says that it did.
    structured = mapping_in(result, "structured_output")
    text = json.dumps(structured, ensure_ascii=False) if structured else text_in(result, "result")
    reason = text_in(result, "stop_reason")
    return LLMResponse(text, raw=dict(result), usage=usage, finish_reason=_FINISH_REASONS.get(reason, reason))


def _completion(claude: str, config: ClaudeCodeLLMConfig, prompt: str, system: str, schema: str | None) -> Record:
    """Send one prompt to the binary, and return the `result` event of its answer.

    Args:
        claude: The path of the binary.
        config: The settings of the client.
        prompt: The whole prompt.
        system: The system prompt, which replaces that of Claude Code.
        schema: The JSON schema of the answer; None for a text.

    Raises:
        LLMAuthenticationError: The binary is not logged in, or its key was rejected.
        LLMCallError: It gave no answer.
        ClaudeUsageError: It rejected its arguments.
    """
    finished = _run(claude, config, prompt, system, schema)
    if finished.timed_out:
        raise _error(config, f"it was stopped after {config.timeout:g} seconds", {})
    check_usage(finished)
    try:
        result = json.loads(finished.stdout)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        said = finished.stderr.strip() or "it said nothing on standard error"
        raise _error(config, f"exit code {finished.returncode} and no result: {said}", {})
    problem = problem_in_result(result)
    if problem:
        check_login(result, config.model_string)
        raise _error(config, problem, result)
    return result


def _run(claude: str, config: ClaudeCodeLLMConfig, prompt: str, system: str, schema: str | None) -> FinishedProcess:
    with tempfile.TemporaryDirectory(prefix="ace-claude-code-") as folder:
        system_file = Path(folder) / "system.txt"
        system_file.write_text(system, encoding="utf-8", errors="backslashreplace")
        empty = Path(folder) / "empty"
        empty.mkdir()
        command = [claude, *_ISOLATED, "--system-prompt-file", str(system_file)]
        command += ["--model", config.model] if config.model else []
        command += ["--json-schema", schema] if schema is not None else []
        process = ClaudeProcess(
            command,
            stdin=prompt,
            cwd=empty,
            environ=_environ(config),
            timeout=config.timeout,
            # Background learning continues when a run is cancelled.
            heeds_token=False,
        )
        return process.run()


def _environ(config: ClaudeCodeLLMConfig) -> dict[str, str]:
    variables = {"ANTHROPIC_BASE_URL": config.api_base, "ANTHROPIC_API_KEY": config.api_key}
    address = {name: value for name, value in variables.items() if value}
    return {**os.environ, **config.env, **address, LEARNING_VARIABLE: "1"}


def _error(config: ClaudeCodeLLMConfig, reason: str, result: Record) -> LLMCallError:
    status = number_in(result, "api_error_status")
    code = None if status is None else int(status)
    return LLMCallError(f"Claude Code gave no answer: {reason}", model=config.model_string, status_code=code)
