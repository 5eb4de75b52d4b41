"""The commands of the how-to work in their order, on a database of the tests."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ace.skillbook import Skillbook
from tests.support.command_line import ace

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "share-a-skillbook-in-postgres.md"
SHOWN = "postgresql://ann@db.internal/ace?book=support"


def test_every_command_of_the_page_works(tmp_path: Path, postgres: str) -> None:
    [block] = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    export, *commands = block.splitlines()
    assert export == f'export ACE_SKILLBOOK="{SHOWN}"' and len(commands) == 5
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("billing", "Check the units.")
    for command in commands:
        program, *arguments = shlex.split(command.replace("$ACE_SKILLBOOK", postgres))
        done = ace(*arguments, folder=tmp_path, environ={"ACE_SKILLBOOK": postgres})
        assert (program, done.code, done.out != "") == ("ace", 0, True), (arguments, done.err)
    with Skillbook.open(postgres) as book:
        assert [skill.content for skill in book.skills()] == ["Check the units."]
