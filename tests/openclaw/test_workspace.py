"""The skills in the workspace: within the limits of OpenClaw, and gone without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.integrations import ManagedBlockError
from ace.skillbook import Skillbook
from ace_openclaw.workspace import FILE_LIMIT, remove_skills, write_skills


def book_of(number: int, words: str = "Guard a division against an empty list.") -> Skillbook:
    book = Skillbook()
    for at in range(number):
        book.add_skill("claws", f"{at}: {words}", metadata={"helpful": at})
    return book


def files_in(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_the_top_skills_are_in_agents_md_and_the_whole_book_is_a_skill(tmp_path: Path) -> None:
    write_skills(tmp_path, book_of(500))
    agents = (tmp_path / "AGENTS.md").read_text(encoding="utf-8")
    assert "499: Guard" in agents and "] 0: Guard" not in agents
    assert len(agents) < 6_500
    skill = (tmp_path / "skills/ace-skillbook/SKILL.md").read_text(encoding="utf-8")
    assert skill.startswith("---\nname: ace-skillbook\ndescription: ")
    assert len(skill.split("\n")[2]) <= 160
    assert skill.count("Guard a division") == 500


def test_a_long_agents_md_leaves_less_room_and_stays_below_the_limit(tmp_path: Path) -> None:
    target = tmp_path / "AGENTS.md"
    target.write_text("x" * (FILE_LIMIT - 1_000), encoding="utf-8")
    write_skills(tmp_path, book_of(500))
    assert FILE_LIMIT - 300 < len(target.read_text(encoding="utf-8")) <= FILE_LIMIT


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# Mine\n",
        b"# Mine",
        b"# Mine\r\n\r\n- dos\r\n",
        b"\xef\xbb\xbf# Mine\n\n\n",
        b"\xff\xfe no utf-8\n",
        b"\n",
    ],
)
def test_nothing_of_the_user_is_changed_and_nothing_is_left(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "AGENTS.md"
    if content:
        target.write_bytes(content)
    before = files_in(tmp_path)
    write_skills(tmp_path, book_of(2))
    assert target.read_bytes().startswith(content)
    write_skills(tmp_path, book_of(3))
    assert target.read_bytes().startswith(content)
    assert remove_skills(tmp_path)
    assert files_in(tmp_path) == before
    assert not remove_skills(tmp_path)


def test_what_the_user_wrote_below_stays(tmp_path: Path) -> None:
    target = tmp_path / "AGENTS.md"
    target.write_bytes(b"above\n")
    write_skills(tmp_path, book_of(1))
    target.write_bytes(target.read_bytes() + b"below\n")
    write_skills(tmp_path, book_of(2))
    remove_skills(tmp_path)
    assert target.read_bytes() == b"above\nbelow\n"


def test_other_skills_of_the_workspace_stay(tmp_path: Path) -> None:
    other = tmp_path / "skills/tides/SKILL.md"
    other.parent.mkdir(parents=True)
    other.write_text("tides", encoding="utf-8")
    write_skills(tmp_path, book_of(1))
    remove_skills(tmp_path)
    assert files_in(tmp_path) == {"skills": None, "skills/tides": None, "skills/tides/SKILL.md": b"tides"}


def test_broken_marks_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "AGENTS.md"
    target.write_text("<!-- ace:skills begin -->\n", encoding="utf-8")
    with pytest.raises(ManagedBlockError, match=r"AGENTS\.md"):
        write_skills(tmp_path, book_of(1))
    with pytest.raises(ManagedBlockError, match=r"AGENTS\.md"):
        remove_skills(tmp_path)
    assert target.read_text(encoding="utf-8") == "<!-- ace:skills begin -->\n"


def test_an_empty_book_writes_nothing(tmp_path: Path) -> None:
    write_skills(tmp_path, Skillbook())
    assert files_in(tmp_path) == {}
