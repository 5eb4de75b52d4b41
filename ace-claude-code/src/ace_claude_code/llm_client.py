"""`ClaudeCodeLLMClient`: the binary as a client of a language model."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ace.protocols import (
    LLMAuthenticationError,
    LLMCallError,
    LLMResponse,
    UnusableAnswerError,
    Usage,
    current_answer_budget,
    current_call_scope,
    note_model_call,
)
from ace.protocols.llm import StructuredAnswer
from ace_claude_code.account import metrics_of_result
from ace_claude_code.binary import find_claude
from ace_claude_code.execute import check_usage
from ace_claude_code.guard import LEARNING_VARIABLE
from ace_claude_code.json_fields import Record, number_in, text_in
from ace_claude_code.llm_config import ClaudeCodeLLMConfig
from ace_claude_code.outcome import problem_in_result
from ace_claude_code.process import ClaudeProcess, FinishedProcess

__all__ = ["ClaudeCodeLLMClient"]

_SYSTEM = "You answer the request of the user. You have no tools and no files."
# No settings of the user or the project: no hooks, which could start a learner again, no CLAUDE.md, no MCP servers.
_ISOLATED = (
    *("-p", "--output-format", "json", "--tools", "", "--setting-sources", "", "--strict-mcp-config"),
    *("--disable-slash-commands", "--no-session-persistence"),
)
_REFUSED = (401, 403)


class ClaudeCodeLLMClient:
    """Asks a model through the `claude` binary, with the login that the user has there; it needs no key.

    It satisfies `LLMClientLike` and may be used from several threads. The binary runs in an empty folder, without
    tools, without the settings, hooks and MCP servers of the user, and stores no session.

    Args:
        model: The model, such as `sonnet`; empty for that of the binary.
        config: All settings; the other arguments are not looked at then.
        claude: The binary.
        timeout: After how many seconds a call has failed.
        api_base: Another address than that of the login.
        api_key: A key, in the place of the login.
        max_tokens: Taken because all clients have it; the binary chooses the length itself.
        temperature: Likewise.

    Raises:
        ClaudeNotFoundError: There is no binary.
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
        self._usage = Usage()
        self._lock = threading.Lock()

    @classmethod
    def from_config(cls, config: ClaudeCodeLLMConfig) -> Self:
        """Make a client from settings.

        Args:
            config: The settings.
        """
        return cls(config=config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config.model!r})"

    @property
    def model(self) -> str:
        """The model string, with the prefix of this client."""
        return f"claude_code/{self.config.model}"

    @property
    def usage(self) -> Usage:
        """What all calls of this client have used so far."""
        with self._lock:
            return self._usage

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        """Send a prompt and return the answer.

        Args:
            prompt: The whole prompt.
            **kwargs: `system` for a system message; other settings, such as max_tokens, are the binary's own.

        Raises:
            LLMAuthenticationError: The binary is not logged in, or its key was refused.
            LLMCallError: The binary gave no answer.
        """
        response, _ = self._ask(prompt, str(kwargs.get("system") or _SYSTEM), None)
        return response

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        """Send a prompt and return the answer as an instance of a pydantic model.

        The binary makes the model answer by a JSON schema. A run in which the model answers in words is a success to
        the binary; here it is asked again.

        Args:
            prompt: The whole prompt.
            response_model: The class that the answer must validate as.
            **kwargs: As for `complete`.

        Raises:
            UnusableAnswerError: No answer validates; it carries the raw answers.
            LLMCallError: The binary gave no answer.
        """
        budget = current_answer_budget()
        schema = json.dumps(response_model.model_json_schema())
        system = str(kwargs.get("system") or _SYSTEM)
        asked, answers = prompt, list[str]()
        while True:
            response, structured = self._ask(asked, system, schema)
            raw = response.text if structured is None else json.dumps(structured, ensure_ascii=False)
            answers.append(raw)
            if budget is not None:
                budget.record(raw)
            value, problem = _validated(structured, response_model)
            if value is not None:
                return value
            if len(answers) > self.config.validation_retries or (budget is not None and budget.left == 0):
                raise UnusableAnswerError(problem, raw_answers=answers)
            asked = f"{prompt.rstrip()}\n\n# Your last answer\n\nIt cannot be used: {problem}. Give a better one.\n"

    def _ask(self, prompt: str, system: str, schema: str | None) -> tuple[LLMResponse, Record | None]:
        """Return the answer, and its structured form if it has one. A recorded answer is not paid for again."""
        answers = current_call_scope().answers
        request = json.dumps(["claude_code", self.config.model, system, prompt, schema])
        known = None if answers is None else answers.next(request)
        if known is not None:
            response, structured = _answer_in(json.loads(known))
            note_model_call(self.model, response.usage, 0.0, recorded=True)
            return replace(response, usage=Usage()), structured
        started = time.monotonic()
        result = self._result(self._run(prompt, system, schema))
        if answers is not None:
            result = json.loads(answers.keep(request, json.dumps(_lasting(result))))
        response, structured = _answer_in(result)
        self._add(response.usage)
        note_model_call(self.model, response.usage, time.monotonic() - started)
        return response, structured

    def _run(self, prompt: str, system: str, schema: str | None) -> FinishedProcess:
        with tempfile.TemporaryDirectory(prefix="ace-claude-code-") as folder:
            system_file = Path(folder) / "system.txt"
            system_file.write_text(system, encoding="utf-8", errors="backslashreplace")
            empty = Path(folder) / "empty"
            empty.mkdir()
            command = [self._claude, *_ISOLATED, "--system-prompt-file", str(system_file)]
            command += ["--model", self.config.model] if self.config.model else []
            command += ["--json-schema", schema] if schema is not None else []
            # What is learned in the background goes on when a run is cancelled.
            return ClaudeProcess(
                command,
                stdin=prompt,
                cwd=empty,
                environ=self._environ(),
                timeout=self.config.timeout,
                heeds_token=False,
            ).run()

    def _environ(self) -> dict[str, str]:
        given = {"ANTHROPIC_BASE_URL": self.config.api_base, "ANTHROPIC_API_KEY": self.config.api_key}
        address = {name: value for name, value in given.items() if value}
        return {**os.environ, **self.config.env, **address, LEARNING_VARIABLE: "1"}

    def _result(self, finished: FinishedProcess) -> Record:
        """Return the result that the binary printed.

        Raises:
            LLMCallError: It printed none, or one that says that the call failed.
        """
        if finished.timed_out:
            raise self._failed(f"it was stopped after {self.config.timeout:g} seconds")
        check_usage(finished)
        try:
            result = json.loads(finished.stdout)
        except ValueError:
            result = None
        if not isinstance(result, dict):
            said = finished.stderr.strip() or "it said nothing on standard error"
            raise self._failed(f"exit code {finished.returncode} and no result: {said}")
        problem = problem_in_result(result)
        if problem:
            raise self._failed(problem, result)
        return result

    def _failed(self, reason: str, result: Mapping[str, object] | None = None) -> LLMCallError:
        self._add(Usage(failed_requests=1))
        status = number_in(result or {}, "api_error_status")
        code = None if status is None else int(status)
        text = text_in(result or {}, "result")
        if code in _REFUSED or "/login" in text or "Invalid API key" in text:
            return LLMAuthenticationError(
                f"Claude Code is not logged in, or its key was refused; run 'claude' and log in, or set "
                f"ANTHROPIC_API_KEY. Reason: {reason}",
                model=self.model,
                status_code=code,
                missing_variables=("ANTHROPIC_API_KEY",),
            )
        return LLMCallError(f"Claude Code gave no answer: {reason}", model=self.model, status_code=code)

    def _add(self, usage: Usage) -> None:
        with self._lock:
            self._usage = self._usage + usage


def _lasting(result: Record) -> dict[str, object]:
    """Return what of a result is worth recording."""
    kept = ("result", "structured_output", "usage", "total_cost_usd", "num_turns", "duration_ms", "stop_reason")
    return {name: result[name] for name in kept if name in result}


def _answer_in(result: Record) -> tuple[LLMResponse, Record | None]:
    numbers = metrics_of_result(result)
    usage = Usage(
        calls=1,
        input_tokens=int(numbers.get("input_tokens", 0)),
        output_tokens=int(numbers.get("output_tokens", 0)),
        cost=numbers.get("cost_usd", 0.0),
        unpriced_calls=0 if "cost_usd" in numbers else 1,
    )
    structured = result.get("structured_output")
    response = LLMResponse(text_in(result, "result"), raw=dict(result), usage=usage, finish_reason="stop")
    return response, structured if isinstance(structured, dict) else None


def _validated(
    structured: Record | None, response_model: type[StructuredAnswer]
) -> tuple[StructuredAnswer | None, str]:
    """Return the answer as an instance, or None and what is wrong with it."""
    from pydantic import ValidationError

    if structured is None:
        return None, "the answer came in words and not through the tool for structured output"
    # `raw` is ours: it keeps the answer as it came, whatever the model wrote under that name.
    data = {**structured, "raw": dict(structured)} if "raw" in response_model.model_fields else structured
    try:
        return response_model.model_validate(data), ""
    except ValidationError as error:
        places = [
            f"{'.'.join(map(str, item['loc'])) or 'the object'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        return None, "; ".join(places[:10])
