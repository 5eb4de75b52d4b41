"""One question to a model through the binary, apart from everything that the user has set up."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from ace.json_fields import Record, number_in
from ace.protocols import LLMCallError
from ace_claude_code.execute import check_usage
from ace_claude_code.guard import LEARNING_VARIABLE
from ace_claude_code.llm_config import ClaudeCodeLLMConfig
from ace_claude_code.outcome import check_login, problem_in_result
from ace_claude_code.process import ClaudeProcess, FinishedProcess

__all__ = ["completion"]

# No settings of the user or the project: no hooks, which could start a learner again, no CLAUDE.md, no MCP servers.
_ISOLATED = (
    *("-p", "--output-format", "json", "--tools", "", "--setting-sources", "", "--strict-mcp-config"),
    *("--disable-slash-commands", "--no-session-persistence"),
)


def completion(claude: str, config: ClaudeCodeLLMConfig, prompt: str, system: str, schema: str | None) -> Record:
    """Return the `result` event that the binary answers with.

    Args:
        claude: The path of the binary.
        config: How it is asked.
        prompt: The whole prompt.
        system: The system prompt, instead of that of Claude Code.
        schema: The JSON schema of the answer; None for words.

    Raises:
        LLMAuthenticationError: The binary is not logged in, or its key was refused.
        LLMCallError: It gave no answer.
        ClaudeUsageError: It refused its arguments.
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
            # What is learned in the background goes on when a run is cancelled.
            heeds_token=False,
        )
        return process.run()


def _environ(config: ClaudeCodeLLMConfig) -> dict[str, str]:
    given = {"ANTHROPIC_BASE_URL": config.api_base, "ANTHROPIC_API_KEY": config.api_key}
    address = {name: value for name, value in given.items() if value}
    return {**os.environ, **config.env, **address, LEARNING_VARIABLE: "1"}


def _error(config: ClaudeCodeLLMConfig, reason: str, result: Record) -> LLMCallError:
    status = number_in(result, "api_error_status")
    code = None if status is None else int(status)
    return LLMCallError(f"Claude Code gave no answer: {reason}", model=config.model_string, status_code=code)
