"""The first command of the how-to on measuring prints what the page shows, with a scripted model."""

import doctest
import shlex
from pathlib import Path

from tests.docs.console_commands import BLOCK
from tests.support.command_line import Run
from tests.support.corrected_runs import shop, write_runs
from tests.support.scripted_server import ScriptedServer
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs/how-to/measure-what-skills-are-worth.md").read_text(encoding="utf-8")


def test_the_command_prints_what_the_page_shows(here: Run) -> None:
    write_runs(Path("logs"), 10)
    block = BLOCK.search(TEXT)
    assert block is not None
    command, _, printed = block["body"].removeprefix("$ ace ").partition("\n")
    with ScriptedServer(shop) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base}
        done = here(*shlex.split(command), environ=environ)
    assert done.code == 0, done.err
    assert doctest.OutputChecker().check_output(printed, done.out, doctest.ELLIPSIS), done.out
