"""`ace skillbook export`."""

from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.support.command_line import Run
from tests.support.json_shape import misfits

EXPORT = {"schema": int, "command": str, "skillbook": str, "path": str, "format": str, "skills": int}


def test_json_is_the_whole_skillbook(store: Path, folder: Path, run: Run) -> None:
    with Skillbook.open(store) as book:
        book.remove_skill("maths-00002", soft=True)
        expected = book.dumps()
    data = run("export", "out/all.json", "--json").data
    assert misfits(data, EXPORT) == []
    assert (data["format"], data["skills"]) == ("json", 4)
    assert (folder / "out" / "all.json").read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("name", ["all.txt", "all.md", "skills"])
def test_what_was_exported_can_be_imported(store: Path, folder: Path, run: Run, name: str) -> None:
    assert run("export", name).code == 0
    done = run("import", name, "--skillbook", "copy.json")
    assert done.code == 0
    assert contents(folder / "copy.json") == contents(store)


def test_a_folder_gets_a_skill_folder_for_each_section(store: Path, folder: Path, run: Run) -> None:
    done = run("export", "skills", "--json")
    assert (done.data["format"], done.data["skills"]) == ("skill", 4)
    assert sorted(path.name for path in (folder / "skills").iterdir()) == ["geography", "maths"]
    lines = (folder / "skills" / "geography" / "SKILL.md").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["---", "name: geography"]
    assert "- [geography-00004] Name the country first." in lines
    assert not any("maths-" in line for line in lines)


def test_a_folder_of_a_section_without_skills_is_removed(store: Path, folder: Path, run: Run) -> None:
    run("export", "skills")
    (folder / "skills" / "maths" / "notes.md").write_text("mine", encoding="utf-8")
    (folder / "skills" / "other").mkdir()
    run("remove", "geography-00004", "--yes")
    run("remove", "maths-00001", "maths-00002", "maths-00003", "--yes")
    assert run("export", "skills").code == 0
    left = sorted(path.relative_to(folder / "skills").as_posix() for path in (folder / "skills").rglob("*"))
    assert left == ["maths", "maths/notes.md", "other"]


def test_a_skill_folder_of_the_user_is_replaced_only_when_that_was_said(store: Path, folder: Path, run: Run) -> None:
    own = folder / "skills" / "maths" / "SKILL.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: maths\ndescription: Mine.\n---\n", encoding="utf-8")
    done = run("export", "skills")
    assert done.code == 2 and "skills/maths/SKILL.md" in done.err and "--yes" in done.err
    assert "Mine." in own.read_text(encoding="utf-8")
    assert run("export", "skills", "--yes").code == 0
    assert "Check the units" in own.read_text(encoding="utf-8")
    assert run("export", "skills").code == 0, "what ace has written needs no confirmation"


def test_in_agents_md_only_the_managed_block_is_ours(store: Path, folder: Path, run: Run) -> None:
    own = b"# Ours\r\n\r\nRun the tests.\r\n"
    (folder / "AGENTS.md").write_bytes(own)
    assert run("export", "AGENTS.md").code == 0
    first = (folder / "AGENTS.md").read_bytes()
    assert first.startswith(own) and b"- [maths-00002] Guess quickly." in first
    run("prune", "--yes")
    assert run("export", "AGENTS.md").code == 0
    assert (folder / "AGENTS.md").read_bytes() == first.replace(
        b"- [maths-00002] Guess quickly. (helpful 0, harmful 2)\r\n", b""
    )


def test_an_earlier_version_can_be_exported(store: Path, folder: Path, run: Run) -> None:
    with Skillbook.open(store) as book:
        version, then = book.version, book.as_markdown()
    run("remove", "maths-00002", "--yes")
    assert run("export", "-", "--format", "markdown", "--at", str(version)).out == f"{then}\n"
    assert "[maths-00002]" not in run("export", "-", "--format", "markdown").out
    assert run("export", "then.md", "--at", str(version)).code == 0
    assert (folder / "then.md").read_text(encoding="utf-8") == f"{then}\n"
    missing = run("export", "-", "--at", "99")
    assert missing.code == 2 and "99" in missing.err
    run("export", "copy.json")
    assert run("export", "-", "--at", "1", "--skillbook", "copy.json").code == 2


def test_the_format_can_be_said(store: Path, folder: Path, run: Run) -> None:
    (folder / "notes.md").write_text("# Notes\n", encoding="utf-8")
    assert run("export", "notes.md", "--format", "block").code == 0
    assert (folder / "notes.md").read_text(encoding="utf-8").startswith("# Notes\n\n<!-- ace:skills begin")


@pytest.mark.parametrize("name", ["old.json", "old.md", "old.txt"])
def test_a_file_is_replaced_only_when_that_was_said(store: Path, folder: Path, run: Run, name: str) -> None:
    (folder / name).write_text("mine", encoding="utf-8")
    done = run("export", name)
    assert done.code == 2 and name in done.err and "--yes" in done.err
    assert (folder / name).read_text(encoding="utf-8") == "mine"
    assert run("export", name, "--yes").code == 0
    assert "Guess quickly." in (folder / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["skills.csv"], "--format"),
        (["other.db"], "ace skillbook merge"),
        (["skills.db", "--format", "json", "--yes"], "the skillbook itself"),
        (["here", "--format", "json"], "is a folder"),
        (["file", "--format", "skill"], "is a file"),
        (["AGENTS.md"], "1 begin and 0 end marks"),
        (["file/x.md"], "choose another path"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(
    store: Path, folder: Path, run: Run, arguments: list[str], named: str
) -> None:
    (folder / "here").mkdir()
    (folder / "file").write_text("a file", encoding="utf-8")
    (folder / "AGENTS.md").write_text("<!-- ace:skills begin -->\n", encoding="utf-8")
    before = contents(store)
    done = run("export", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and named in done.err
    assert contents(store) == before
    assert (folder / "AGENTS.md").read_text(encoding="utf-8") == "<!-- ace:skills begin -->\n"


@pytest.mark.parametrize(("arguments", "export_format"), [([], "json"), (["--format", "markdown"], "markdown")])
def test_an_export_goes_to_standard_output(
    store: Path, folder: Path, run: Run, arguments: list[str], export_format: str
) -> None:
    done = run("export", "-", *arguments)
    assert (done.code, done.err) == (0, "")
    run("export", "file", "--format", export_format)
    assert done.out == (folder / "file").read_text(encoding="utf-8")
    assert not (folder / "-").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "skill"], "needs a file or folder"),
        (["--format", "block"], "file"),
        (["--json"], "--json"),
    ],
)
def test_what_cannot_go_to_standard_output_says_so(store: Path, run: Run, arguments: list[str], said: str) -> None:
    done = run("export", "-", *arguments)
    assert (done.code, done.out) == (2, "") and said in done.err
