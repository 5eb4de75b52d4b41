"""The commands in the how-to on keeping a skillbook work, in their order, on the files that its examples make."""

import re
import shlex
from pathlib import Path

from tests.core.cli.skillbook.conftest import folder, run
from tests.docs.markdown_examples import run_examples
from tests.support.command_line import Run

__all__ = ["folder", "run"]  # fixtures

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "keep-a-skillbook.md"


def test_every_command_of_the_page_works(folder: Path, run: Run) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert len(commands) > 20
    run_examples(PAGE)
    for program, group, *arguments in commands:
        assert (program, group) == ("ace", "skillbook")
        done = run(*arguments)
        assert (done.code, done.out != "") == (0, True), (arguments, done.err)
