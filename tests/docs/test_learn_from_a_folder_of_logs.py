"""The commands with which the how-to on a folder of logs begins work, and print what the page says."""

import doctest
import json
import re
import shlex
from pathlib import Path

from tests.docs.console_commands import BLOCK
from tests.support.command_line import Run
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs/how-to/learn-from-a-folder-of-logs.md").read_text(encoding="utf-8")
CHAT = [
    {"role": "user", "content": "Which order?"},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "Error: not found"},
    {"role": "assistant", "content": "I cannot find it."},
]
RUNS = [{"task": f"{number}?", "answer": "No.", "success": number == 0} for number in range(3)]


def test_the_commands_work(here: Run, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    (tmp_path / "logs/runs.jsonl").write_text("\n".join(map(json.dumps, RUNS)), encoding="utf-8")
    first = BLOCK.search(TEXT)
    assert first is not None
    command, _, printed = first["body"].removeprefix("$ ace ").partition("\n")
    done = here(*shlex.split(command))
    assert doctest.OutputChecker().check_output(printed, done.out, doctest.ELLIPSIS), done.out
    commands = re.findall(r"^\| `ace (.*?)`", TEXT, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        done = here(*shlex.split(command))
        assert done.code == (2 if "--all" in command else 0), (command, done.err)  # nothing is at the default places
