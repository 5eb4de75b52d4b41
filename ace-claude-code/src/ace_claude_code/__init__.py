"""ACE for Claude Code: sessions that learn from earlier sessions. Modules are imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_claude_code.binary import ClaudeNotFoundError, find_claude
    from ace_claude_code.execute import ClaudeCodeExecuteStep, ClaudeUsageError
    from ace_claude_code.llm_client import ClaudeCodeLLMClient
    from ace_claude_code.llm_config import ClaudeCodeLLMConfig
    from ace_claude_code.records import TranscriptError
    from ace_claude_code.result import ClaudeCodeResult
    from ace_claude_code.runner import ClaudeCode
    from ace_claude_code.skill_file import SkillFileStep, write_skill_file
    from ace_claude_code.to_trace import ClaudeCodeToTrace, transcript_to_trace, transcript_to_turn_traces

__all__ = [
    "ClaudeCode",
    "ClaudeCodeExecuteStep",
    "ClaudeCodeLLMClient",
    "ClaudeCodeLLMConfig",
    "ClaudeCodeResult",
    "ClaudeCodeToTrace",
    "ClaudeNotFoundError",
    "ClaudeUsageError",
    "SkillFileStep",
    "TranscriptError",
    "find_claude",
    "transcript_to_trace",
    "transcript_to_turn_traces",
    "write_skill_file",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ClaudeCode": "runner",
        "ClaudeCodeExecuteStep": "execute",
        "ClaudeCodeLLMClient": "llm_client",
        "ClaudeCodeLLMConfig": "llm_config",
        "ClaudeCodeResult": "result",
        "ClaudeCodeToTrace": "to_trace",
        "ClaudeNotFoundError": "binary",
        "ClaudeUsageError": "execute",
        "SkillFileStep": "skill_file",
        "TranscriptError": "records",
        "find_claude": "binary",
        "transcript_to_trace": "to_trace",
        "transcript_to_turn_traces": "to_trace",
        "write_skill_file": "skill_file",
    },
)
