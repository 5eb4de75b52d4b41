"""The functions that all integrations with agent frameworks share.

- the skills in a prompt, and which of them an answer cites: `wrap_skillbook_for_external_agent`,
  `extract_cited_skill_ids`;
- the corrections in a conversation: `corrections_in`;
- a framework that has to answer in time: `within_seconds`;
- checked arguments: `checked_arguments`, `checked_class`;
- commands: what they print (`note`, `print_text`, `print_table`, `print_json`, `counted`), how they end (`DONE`,
  `WITH_FAILURES`, `INTERRUPTED`, `UsageError`), and Ctrl-C in the middle of them (`run_interruptibly`,
  `warnings_shown`); the table of a plugin in the settings files: `setting_tables`;
- descriptions of a history: `change_counts`, `described`, `place_of`;
- the samples of an evaluation in files: `all_samples`;
- reports of a run, from events: `observing`, `SampleEnded`, `StepEnded`, `ModelCalled`, `SkillsChanged`,
  `BatchJudged`.

Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.arguments import checked_arguments, checked_class
    from ace.calls import within_seconds
    from ace.cases import corrections_in
    from ace.cli.console import counted, is_terminal, note, print_json, print_table, print_text, warnings_shown
    from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError, check_is_path
    from ace.cli.learning.sample_files import all_samples
    from ace.cli.settings_file import SettingTable, setting_tables
    from ace.cli.signals import run_interruptibly
    from ace.cli.skillbooks.history import change_counts, described, place_of
    from ace.protocols.observers import BatchJudged, ModelCalled, SampleEnded, SkillsChanged, StepEnded, observing
    from ace.roles import SKILLBOOK_USAGE_INSTRUCTIONS
    from ace.roles.prompts import extract_cited_skill_ids, wrap_skillbook_for_external_agent

__all__ = [
    "DONE",
    "INTERRUPTED",
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "WITH_FAILURES",
    "BatchJudged",
    "ModelCalled",
    "SampleEnded",
    "SettingTable",
    "SkillsChanged",
    "StepEnded",
    "UsageError",
    "all_samples",
    "change_counts",
    "check_is_path",
    "checked_arguments",
    "checked_class",
    "corrections_in",
    "counted",
    "described",
    "extract_cited_skill_ids",
    "is_terminal",
    "note",
    "observing",
    "place_of",
    "print_json",
    "print_table",
    "print_text",
    "run_interruptibly",
    "setting_tables",
    "warnings_shown",
    "within_seconds",
    "wrap_skillbook_for_external_agent",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BatchJudged": "protocols.observers",
        "DONE": "cli.errors",
        "INTERRUPTED": "cli.errors",
        "ModelCalled": "protocols.observers",
        "SKILLBOOK_USAGE_INSTRUCTIONS": "roles",
        "SampleEnded": "protocols.observers",
        "SettingTable": "cli.settings_file",
        "SkillsChanged": "protocols.observers",
        "StepEnded": "protocols.observers",
        "UsageError": "cli.errors",
        "WITH_FAILURES": "cli.errors",
        "all_samples": "cli.learning.sample_files",
        "change_counts": "cli.skillbooks.history",
        "check_is_path": "cli.errors",
        "checked_arguments": "arguments",
        "checked_class": "arguments",
        "corrections_in": "cases",
        "counted": "cli.console",
        "described": "cli.skillbooks.history",
        "extract_cited_skill_ids": "roles.prompts",
        "is_terminal": "cli.console",
        "note": "cli.console",
        "observing": "protocols.observers",
        "place_of": "cli.skillbooks.history",
        "print_json": "cli.console",
        "print_table": "cli.console",
        "print_text": "cli.console",
        "run_interruptibly": "cli.signals",
        "setting_tables": "cli.settings_file",
        "warnings_shown": "cli.console",
        "within_seconds": "calls",
        "wrap_skillbook_for_external_agent": "roles.prompts",
    },
    below="ace",
)
