"""The functions that all integrations with agent frameworks share.

- the skills in a prompt, and which of them an answer cites: `wrap_skillbook_for_external_agent`,
  `extract_cited_skill_ids`;
- a framework that has to answer in time: `within_seconds`;
- checked arguments: `checked_arguments`, `checked_class`;
- the names of a package that are imported on first use: `lazy_exports`;
- files that survive a crash (`append_line`, `replace_file`, `write_durably`), not through the links that a cloned
  project may contain (`own_file`, `open_private`), and their locks (`file_lock`,
  `folder_lock`, `passing_lock`); blocks in the text files of users (`write_managed_block`); entries in the JSON files
  of other programs (`insert_member`, `remove_member`); records of other programs (`Record`, `text_in`);
- learning in a separate process: `JobQueue`, `Job`; folders that an installation has made: `MadeFolders`,
  `remove_empty_folders`;
- commands: what they print (`note`, `print_text`, `print_table`, `print_json`, `counted`, `ask`,
  `visible`, `with_hidden_shown`), how they end (`DONE`,
  `WITH_FAILURES`, `INTERRUPTED`, `UsageError`), and Ctrl-C in the middle of them (`run_interruptibly`,
  `warnings_shown`); a time such as `7d` (`moment_of`); the table of a plugin in the settings files: `setting_tables`;
- commands of coding agents: `learn_until_stopped`, `print_spend`, `skill_count`;
- descriptions of a history: `change_counts`, `described`, `place_of`;
- servers: `listening_socket`, `is_loopback`;
- the samples of an evaluation in files: `all_samples`;
- reports of a run, from events: `observing`, `SampleEnded`, `StepEnded`, `ModelCalled`, `SkillsChanged`,
  `BatchJudged`.

Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace._internal.arguments import checked_arguments, checked_class, closest_name, shown
    from ace._internal.atomic_file import (
        append_line,
        file_lock,
        folder_lock,
        open_private,
        own_file,
        passing_lock,
        real_path,
        replace_file,
        write_durably,
    )
    from ace._internal.detached import (
        LEARNER_AT_WORK,
        LEARNING_VARIABLE,
        Job,
        JobQueue,
        MadeFolders,
        remove_empty_folders,
    )
    from ace._internal.hidden_characters import with_hidden_shown
    from ace._internal.json_edit import (
        InsertedMember,
        JsonTextError,
        check_json,
        insert_member,
        remove_member,
        string_at,
        value_at,
    )
    from ace._internal.json_fields import Record, list_in, mapping_in, number_in, text_in
    from ace._internal.loopback import is_loopback
    from ace._internal.managed_block import (
        BEGIN_MARK,
        END_MARK,
        BlockBefore,
        ManagedBlockError,
        block_before,
        read_managed_block,
        replace_managed_block,
        restore_block,
        write_managed_block,
    )
    from ace.calls import within_seconds
    from ace.cli.agent_commands import learn_until_stopped, print_spend, skill_count
    from ace.cli.console import counted, is_terminal, note, print_json, print_table, print_text, visible, warnings_shown
    from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError, check_is_path
    from ace.cli.inputs import moment_of
    from ace.cli.learning.sample_files import all_samples
    from ace.cli.listening import listening_socket
    from ace.cli.questions import ask
    from ace.cli.settings_file import SettingTable, setting_tables
    from ace.cli.signals import run_interruptibly
    from ace.cli.skillbooks.described_history import change_counts, described, place_of
    from ace.protocols.observers import BatchJudged, ModelCalled, SampleEnded, SkillsChanged, StepEnded, observing
    from ace.roles import SKILLBOOK_USAGE_INSTRUCTIONS
    from ace.roles.prompts import wrap_skillbook_for_external_agent
    from ace.skill import extract_cited_skill_ids

__all__ = [
    "BEGIN_MARK",
    "DONE",
    "END_MARK",
    "INTERRUPTED",
    "LEARNER_AT_WORK",
    "LEARNING_VARIABLE",
    "SKILLBOOK_USAGE_INSTRUCTIONS",
    "WITH_FAILURES",
    "BatchJudged",
    "BlockBefore",
    "InsertedMember",
    "Job",
    "JobQueue",
    "JsonTextError",
    "MadeFolders",
    "ManagedBlockError",
    "ModelCalled",
    "Record",
    "SampleEnded",
    "SettingTable",
    "SkillsChanged",
    "StepEnded",
    "UsageError",
    "all_samples",
    "append_line",
    "ask",
    "block_before",
    "change_counts",
    "check_is_path",
    "check_json",
    "checked_arguments",
    "checked_class",
    "closest_name",
    "counted",
    "described",
    "extract_cited_skill_ids",
    "file_lock",
    "folder_lock",
    "insert_member",
    "is_loopback",
    "is_terminal",
    "lazy_exports",
    "learn_until_stopped",
    "list_in",
    "listening_socket",
    "mapping_in",
    "moment_of",
    "note",
    "number_in",
    "observing",
    "open_private",
    "own_file",
    "passing_lock",
    "place_of",
    "print_json",
    "print_spend",
    "print_table",
    "print_text",
    "read_managed_block",
    "real_path",
    "remove_empty_folders",
    "remove_member",
    "replace_file",
    "replace_managed_block",
    "restore_block",
    "run_interruptibly",
    "setting_tables",
    "shown",
    "skill_count",
    "string_at",
    "text_in",
    "value_at",
    "visible",
    "warnings_shown",
    "with_hidden_shown",
    "within_seconds",
    "wrap_skillbook_for_external_agent",
    "write_durably",
    "write_managed_block",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "BEGIN_MARK": "_internal.managed_block",
        "BatchJudged": "protocols.observers",
        "BlockBefore": "_internal.managed_block",
        "DONE": "cli.errors",
        "END_MARK": "_internal.managed_block",
        "INTERRUPTED": "cli.errors",
        "InsertedMember": "_internal.json_edit",
        "Job": "_internal.detached",
        "JobQueue": "_internal.detached",
        "JsonTextError": "_internal.json_edit",
        "LEARNER_AT_WORK": "_internal.detached",
        "LEARNING_VARIABLE": "_internal.detached",
        "MadeFolders": "_internal.detached",
        "ManagedBlockError": "_internal.managed_block",
        "ModelCalled": "protocols.observers",
        "Record": "_internal.json_fields",
        "SKILLBOOK_USAGE_INSTRUCTIONS": "roles",
        "SampleEnded": "protocols.observers",
        "SettingTable": "cli.settings_file",
        "SkillsChanged": "protocols.observers",
        "StepEnded": "protocols.observers",
        "UsageError": "cli.errors",
        "WITH_FAILURES": "cli.errors",
        "all_samples": "cli.learning.sample_files",
        "ask": "cli.questions",
        "append_line": "_internal.atomic_file",
        "block_before": "_internal.managed_block",
        "change_counts": "cli.skillbooks.described_history",
        "check_is_path": "cli.errors",
        "check_json": "_internal.json_edit",
        "checked_arguments": "_internal.arguments",
        "checked_class": "_internal.arguments",
        "closest_name": "_internal.arguments",
        "counted": "cli.console",
        "described": "cli.skillbooks.described_history",
        "extract_cited_skill_ids": "skill",
        "file_lock": "_internal.atomic_file",
        "folder_lock": "_internal.atomic_file",
        "insert_member": "_internal.json_edit",
        "is_loopback": "_internal.loopback",
        "is_terminal": "cli.console",
        "learn_until_stopped": "cli.agent_commands",
        "list_in": "_internal.json_fields",
        "listening_socket": "cli.listening",
        "mapping_in": "_internal.json_fields",
        "moment_of": "cli.inputs",
        "note": "cli.console",
        "number_in": "_internal.json_fields",
        "observing": "protocols.observers",
        "open_private": "_internal.atomic_file",
        "own_file": "_internal.atomic_file",
        "passing_lock": "_internal.atomic_file",
        "place_of": "cli.skillbooks.described_history",
        "print_json": "cli.console",
        "print_spend": "cli.agent_commands",
        "print_table": "cli.console",
        "print_text": "cli.console",
        "read_managed_block": "_internal.managed_block",
        "real_path": "_internal.atomic_file",
        "remove_empty_folders": "_internal.detached",
        "remove_member": "_internal.json_edit",
        "replace_file": "_internal.atomic_file",
        "replace_managed_block": "_internal.managed_block",
        "restore_block": "_internal.managed_block",
        "run_interruptibly": "cli.signals",
        "setting_tables": "cli.settings_file",
        "shown": "_internal.arguments",
        "skill_count": "cli.agent_commands",
        "string_at": "_internal.json_edit",
        "text_in": "_internal.json_fields",
        "value_at": "_internal.json_edit",
        "visible": "cli.console",
        "warnings_shown": "cli.console",
        "with_hidden_shown": "_internal.hidden_characters",
        "within_seconds": "calls",
        "wrap_skillbook_for_external_agent": "roles.prompts",
        "write_durably": "_internal.atomic_file",
        "write_managed_block": "_internal.managed_block",
    },
    below="ace",
)
