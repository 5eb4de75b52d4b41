"""The commands of the tutorial on gates run in their order, and print what the page says."""

import doctest
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.docs.console_commands import BLOCK, run_line
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs" / "tutorials" / "keep-what-passes-a-gate.md").read_text(encoding="utf-8")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPILE = "Compile before you run the tests."
BRANCH = "Name each branch after its task."
ENDLESS = "--watch"


def script(request: ScriptedRequest) -> Mapping[str, Any] | str:
    """A model that learns one rule about imports and one about branches, and removes all rules when a trace says so."""
    text = request.text
    if request.role == "reflector":
        learning, evidence = "Nothing was learned.", "src/a.ts"
        if "branches" in text:
            learning, evidence = BRANCH, ""
        elif "Fix the imports" in text:
            learning = COMPILE
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach", "key_insight")
        is_helped = "Fix more imports" in text
        return {
            **dict.fromkeys(texts, "The rule was right." if is_helped else ""),
            "extracted_learnings": [] if is_helped else [{"learning": learning, "evidence": evidence}],
            "skill_tags": [{"id": "builds-00001", "tag": "helpful"}] if is_helped else [],
        }
    if request.role == "skill_manager":
        rule = next((rule for rule in (BRANCH, COMPILE) if f'"{rule}' in text), None)
        add = {"type": "ADD", "section": "builds", "content": rule}
        ids = dict.fromkeys(re.findall(r"\[(builds-\d{5})\]", text))
        lose = [{"type": "REMOVE", "skill_id": id, "section": "builds"} for id in ids]
        nothing = "Fix more imports" in text
        return {"reasoning": "", "operations": [] if nothing else [add] if rule else lose}
    return "ready"


def words(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_every_command_prints_what_the_page_says(here: Run, tmp_path: Path) -> None:
    [check] = SHELL.findall(TEXT)
    (tmp_path / "check.sh").write_text(check, encoding="utf-8")
    ran = 0
    with ScriptedServer(script) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
        for block in BLOCK.finditer(TEXT):
            for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
                command, _, printed = part.partition("\n")
                if ENDLESS in command:
                    continue
                done = run_line(command, here, tmp_path, environ)
                assert done.code == 0, (command, done.out, done.err)
                matches = doctest.OutputChecker().check_output(words(printed), words(done.out), doctest.ELLIPSIS)
                assert matches, (command, done.out, done.err)
                ran += 1
    assert ran == 14
