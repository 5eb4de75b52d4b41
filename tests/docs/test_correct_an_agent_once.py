"""The commands of the tutorial on corrections run in their order, and print what the page says."""

import doctest
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.docs.console_commands import BLOCK, run_line
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs" / "tutorials" / "correct-an-agent-once.md").read_text(encoding="utf-8")
CHAT = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROLL_BACK = re.compile(r"ace skillbook rollback (\d+)")
RULE = "Write times in the tide table as the hour, an h and the minutes, such as 14h30."


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    """A model that learns the correction, and follows its rules to the letter."""
    if request.role == "reflector":
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        named = {"message": "3", "quote": "No. Our tide table has the hour", "wrong": "2:30 pm", "right": "14h30"}
        learned = {"extracted_learnings": [{"learning": RULE}], "judgements": [named]}
        return {**dict.fromkeys(texts, "The form was wrong."), **learned}
    if request.role == "skill_manager":
        return {"reasoning": "", "operations": [{"type": "ADD", "section": "tides", "content": RULE}]}
    if request.role == "agent":
        is_evening = "6:45" in request.text.rpartition("# Task")[2]
        coded, plain = ("18h45", "6:45 pm") if is_evening else ("14h30", "2:30 pm")
        return {"reasoning": "", "final_answer": coded if RULE in request.text else plain}
    return "ready"


def words(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_every_command_prints_what_the_page_says(here: Run, tmp_path: Path) -> None:
    folder = tmp_path / "corrections"
    folder.mkdir()
    [chat] = CHAT.findall(TEXT)
    (folder / "tide.json").write_text(chat, encoding="utf-8")
    undo = ""
    ran = 0
    with ScriptedServer(script) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
        for block in BLOCK.finditer(TEXT):
            for part in block["body"].split("$ ace ")[1:]:
                command, _, printed = part.partition("\n")
                done = run_line(f"ace {command.replace('VERSION', undo)}", here, tmp_path, environ)
                assert done.code == 0, (command, done.out, done.err)
                matches = doctest.OutputChecker().check_output(words(printed), words(done.out), doctest.ELLIPSIS)
                assert matches, (command, done.out)
                if command.startswith("skillbook edit"):
                    [undo] = ROLL_BACK.findall(done.out + done.err)
                ran += 1
    assert ran == 11
