"""The commands of the tutorial on one night run in their order, and print what the page says."""

import doctest
import re
import shutil
from pathlib import Path

from tests.docs.console_commands import BLOCK, run_line
from tests.support.command_line import Run
from tests.workspace.project import ROOT

TEXT = (ROOT / "docs" / "tutorials" / "one-night.md").read_text(encoding="utf-8")


def words(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def test_every_command_prints_what_the_page_says(here: Run, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "one_night.py", tmp_path)
    ran = 0
    for block in BLOCK.finditer(TEXT):
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            done = run_line(command, here, tmp_path, {})
            assert done.code == 0, (command, done.out, done.err)
            matches = doctest.OutputChecker().check_output(words(printed), words(done.out), doctest.ELLIPSIS)
            assert matches, (command, done.out, done.err)
            ran += 1
    assert ran == 13
