"""The commands of the how-to on own logs run in a shell, in their order, and print what the page says."""

import doctest
import re
import subprocess
import tomllib
from pathlib import Path

from tests.docs.console_commands import BLOCK
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedServer
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs/how-to/read-your-own-logs.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The only block of a language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "support.jsonl").write_text(block("json"), encoding="utf-8")
    [mapping] = tomllib.loads(block("toml"))["logs"]["mapping"]
    ran = 0
    with ScriptedServer(lambda request: mapping) as server:
        environ = command_environment(tmp_path, {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base})
        environ["PATH"] = f"{ACE.parent}:{environ['PATH']}"
        for found in BLOCK.finditer(TEXT):
            for part in found["body"].split("$ ")[1:]:
                command, _, printed = part.partition("\n")
                done = subprocess.run(
                    ["bash", "-c", command], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, (command, done.stdout, done.stderr)
                assert doctest.OutputChecker().check_output(printed, done.stdout, doctest.ELLIPSIS), done.stdout
                ran += 1
            if ran == 1:  # the page writes the mapping after the first command
                (tmp_path / "ace.toml").write_text(block("toml"), encoding="utf-8")
        assert len(server.requests) == 1
    assert ran == 4
    assert tomllib.loads((tmp_path / "proposed.toml").read_text("utf-8")) == tomllib.loads(block("toml"))
