"""`ace skillbook import` and `ace skillbook merge`."""

import json
from pathlib import Path

import pytest

from ace._internal.managed_block import write_managed_block
from ace.cli.errors import UsageError
from ace.cli.skillbooks.intake import read_start, start_from_file
from ace.skill import CaseCheck, InsightSource, SkillCase
from ace.skillbook import Skillbook
from tests.core.cli.skillbook.conftest import contents
from tests.support.command_line import Run
from tests.support.json_shape import misfits

IMPORTED = {"id": str, "id_in_file": str, "section": str, "content": str}
SKIPPED = {"id_in_file": str, "content": str, "reason": str}
FILE = {"path": str, "imported": [IMPORTED], "updated": [str], "skipped": [SKIPPED], "notes": [str]}
IMPORT = {"schema": int, "command": str, "skillbook": str, "version": int | None, "files": [FILE]}
MERGE = {"schema": int, "command": str, "output": str, "version": int | None, "skills": int, "files": [FILE]}


@pytest.fixture
def foreign(folder: Path) -> Path:
    """The file of another framework, with an id that the store has, and fields that a skillbook has not."""
    path = folder / "foreign.json"
    bullets = [
        {"id": "maths-00002", "section": "maths", "content": "Round at the end.", "helpful": 2, "colour": "red"},
        {"id": "old-00001", "section": "maths", "content": "An old one.", "status": "invalid"},
    ]
    path.write_text(json.dumps({"bullets": bullets, "author": "somebody"}), encoding="utf-8")
    return path


def test_an_import_says_what_was_taken_what_was_not_and_why(
    store: Path, foreign: Path, playbook: Path, run: Run
) -> None:
    before = contents(store)
    data = run("import", "play.txt", "foreign.json", "--json").data
    assert misfits(data, IMPORT) == []
    first, second = data["files"]
    assert [skill["id"] for skill in first["imported"]] == ["str-00001"]
    assert [entry["reason"] for entry in first["skipped"]] == ["already exists as maths-00001"]
    assert [(skill["id_in_file"], skill["id"]) for skill in second["imported"]] == [("maths-00002", "maths-00005")]
    assert [entry["reason"] for entry in second["skipped"]] == ["was removed in the file"]
    assert "author, bullets.colour" in second["notes"][0]
    after = contents(store)
    assert {id: after[id] for id in before} == before
    assert after["maths-00005"] == "Round at the end."


def test_an_import_is_one_version_and_the_next_one_takes_nothing(store: Path, playbook: Path, run: Run) -> None:
    (store.parent / "notes.md").write_text("# Style\n\n- Write short sentences.\n", encoding="utf-8")
    assert run("import", "play.txt", "notes.md", "--json").data["version"] == 6
    assert "ace skillbook import" in run("log", "--limit", "1").out
    assert run("import", "play.txt", "notes.md", "--json").data["version"] == 6
    run("rollback", "5", "--yes")
    assert len(contents(store)) == 4


def test_what_was_taken_out_before_does_not_come_back(store: Path, run: Run) -> None:
    run("export", "all.txt")
    run("prune", "--yes")
    done = run("import", "all.txt", "--verbose")
    assert "was removed from the skillbook: maths-00002" in done.out
    assert "maths-00002" not in contents(store)


def test_an_import_keeps_counters_sources_and_times(store: Path, run: Run) -> None:
    assert run("import", "skills.db", "--skillbook", "new.json").code == 0
    with Skillbook.open(store) as old, Skillbook.open("new.json") as new:
        assert new.skills() == old.skills()


def test_folders_of_skills_and_managed_blocks_are_read(store: Path, folder: Path, run: Run) -> None:
    skill = folder / "skills" / "style"
    skill.mkdir(parents=True)
    head = "---\nname: style\nallowed-tools:\n  - Bash\n---\n"
    (skill / "SKILL.md").write_text(f"{head}# style\n\nSome words.\n\n- Prefer verbs.\n", encoding="utf-8")
    block = "<!-- ace:skills begin -->\n- [b-00001] In the block.\n<!-- ace:skills end -->\n"
    (folder / "AGENTS.md").write_text(f"- Not ours.\n\n{block}", encoding="utf-8")
    data = run("import", "skills", "AGENTS.md", "--skillbook", "new.db", "--json").data
    assert list(contents(folder / "new.db").values()) == ["Prefer verbs.", "In the block."]
    assert data["files"][1]["notes"] == ["only the managed block of ace was read"]


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ("nope.txt", "no such file: 'nope.txt'"),
        ("broken.json", "broken.json, line 1"),
        ("empty.txt", "not valid JSON"),
        ("prose.md", "no skills found in this text"),
        ("text.db", "not a database"),
        ("picture.txt", "not UTF-8"),
        ("bare", "SKILL.md"),
    ],
)
def test_if_one_file_cannot_be_read_nothing_is_taken(
    store: Path, folder: Path, playbook: Path, run: Run, bad: str, named: str
) -> None:
    (folder / "broken.json").write_text("{", encoding="utf-8")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "prose.md").write_text("Only prose.\n", encoding="utf-8")
    (folder / "text.db").write_text("no database", encoding="utf-8")
    (folder / "picture.txt").write_bytes(b"\x89PNG\xff")
    (folder / "bare").mkdir()
    before = contents(store)
    done = run("import", "play.txt", bad)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1 and named in done.err
    assert contents(store) == before


def test_a_merge_keeps_each_text_once_with_the_higher_counters_and_all_sources(folder: Path, run: Run) -> None:
    for name, helpful, other in (("a.json", 5, "Only in a."), ("b.json", 2, "Only in b.")):
        book = Skillbook()
        book.add_skill(
            "maths",
            "Shared.",
            metadata={"helpful": helpful, "harmful": 7 - helpful},
            insight_source=InsightSource(name),
        )
        book.add_skill("maths", other)
        book.save_to_file(folder / name)
    before = [(folder / name).read_bytes() for name in ("a.json", "b.json")]
    data = run("merge", "a.json", "b.json", "-o", "both.json", "--json").data
    assert misfits(data, MERGE) == []
    assert data["files"][1]["updated"] == ["maths-00001"]
    with Skillbook.open("both.json") as both:
        shared = both.get_skill("maths-00001")
        assert shared is not None
        assert (shared.helpful, shared.harmful) == (5, 5)
        assert [source.trace_id for source in shared.sources] == ["a.json", "b.json"]
    assert list(contents(folder / "both.json").values()) == ["Shared.", "Only in a.", "Only in b."]
    assert [(folder / name).read_bytes() for name in ("a.json", "b.json")] == before


def test_a_merge_keeps_the_cases_of_all_books(folder: Path, run: Run) -> None:
    for name, questions in (("a", ("High?", "Low?")), ("b", ("Low?", "Spring?"))):
        book = Skillbook()
        cases = [SkillCase.make(question, CaseCheck("contains", "14h30")) for question in questions]
        book.add_skill("tides", "Write times as 14h30.", cases=cases)
        book.save_to_file(f"{name}.json")
    assert run("merge", "a.json", "b.json", "-o", "both.json").code == 0
    [skill] = Skillbook.load_from_file("both.json").skills()
    assert [case.question for case in skill.cases] == ["High?", "Low?", "Spring?"]


def test_a_merge_into_a_store_is_one_version(store: Path, json_book: Path, playbook: Path, run: Run) -> None:
    before = contents(store)
    data = run("merge", "skills.db", "skills.json", "play.txt", "--output", "skills.db", "--json").data
    assert data["version"] == 6
    after = contents(store)
    assert {id: after[id] for id in before} == before
    assert list(after.values())[4:] == ["Estimate the result first.", "Never check.", "Read the question twice."]
    assert run("merge", "skills.json", "--output", "skills.db", "--json").data["version"] == 6


def test_a_merge_gives_a_json_book_a_history(json_book: Path, run: Run) -> None:
    assert run("merge", "skills.json", "-o", "new.db").code == 0
    assert run("log", "--skillbook", "new.db").out.startswith("new.db at version 1\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["skills.json"], "--output"),
        (["-o", "x.db"], "PATHS is missing"),
        (["skills.json", "-o", "x.md"], "is a text"),
        (["skills.json", "-o", "nowhere/x.db"], "no such folder"),
        (["skills.json", "-o", "foreign.json"], "cannot keep"),
    ],
)
def test_mistakes_in_a_merge(json_book: Path, foreign: Path, run: Run, arguments: list[str], named: str) -> None:
    before = {path: path.read_bytes() for path in json_book.parent.glob("*.json")}
    done = run("merge", *arguments)
    assert (done.code, done.out) == (2, "")
    assert named in done.err
    assert {path: path.read_bytes() for path in before} == before
    assert not (json_book.parent / "x.db").exists()


def test_pairs_that_were_judged_to_differ_follow_their_skills(folder: Path, run: Run) -> None:
    one, other = Skillbook(), Skillbook()
    one.add_skill("maths", "Something else.")
    one.add_skill("maths", "Shared.")
    for text in ("Shared.", "Nearly shared.", "Nearly shared too."):
        other.add_skill("maths", text)
    other.keep_apart("maths-00001", "maths-00002", reasoning="the old one")
    other.keep_apart("maths-00002", "maths-00003", reasoning="the new ones")
    one.save_to_file("one.json")
    other.save_to_file("other.json")
    run("merge", "one.json", "other.json", "-o", "both.json")
    run("import", "other.json", "--skillbook", "one.json")
    with Skillbook.open("both.json") as both, Skillbook.open("one.json") as imported:
        ids = {skill.content: skill.id for skill in both.skills()}
        assert {frozenset(pair): decision.reasoning for pair, decision in both.similarity_decisions().items()} == {
            frozenset((ids["Shared."], ids["Nearly shared."])): "the old one",
            frozenset((ids["Nearly shared."], ids["Nearly shared too."])): "the new ones",
        }
        reasons = [decision.reasoning for decision in imported.similarity_decisions().values()]
        assert reasons == ["the new ones"]


def test_a_device_is_no_file_to_import(folder: Path, run: Run) -> None:
    (folder / "device").mkdir()
    (folder / "device" / "skills.json").symlink_to("/dev/zero")
    done = run("import", "device/skills.json")
    assert done.code == 2
    assert "skills.json: this is a device or a pipe" in done.err


@pytest.mark.parametrize("arguments", [["import", "play.txt"], ["merge", "play.txt", "-o", "skills.db"]])
def test_skills_are_listed_only_when_that_is_asked_for(
    store: Path, playbook: Path, run: Run, arguments: list[str]
) -> None:
    done = run(*arguments)
    assert [line.split() for line in done.out.splitlines()[:2]] == [
        ["file", "imported", "updated", "skipped"],
        ["play.txt", "1", "0", "1"],
    ]
    assert "Read the question twice." not in done.out
    run("rollback", "5", "--yes")
    store.unlink()
    assert "Read the question twice." in run(*arguments, "--verbose").out


AGENTS = """\
# How to work here

- Run `make test`.

## TypeScript Patterns
[Bullet #ts-001, helpful:12, harmful:1, Aggregated from 3 instances] Use .js in imports.
[Bullet #ts-002, helpful:0, harmful:4] Cast to any.
"""


def test_bullet_lines_come_back_with_the_same_counters(folder: Path, run: Run) -> None:
    (folder / "AGENTS.md").write_text(AGENTS, encoding="utf-8")
    for number, source in enumerate(("AGENTS.md", "bullets.txt", "bullets.txt")):
        book = f"book{number}.db"
        assert run("import", source, "--skillbook", book, "--json").code == 0
        done = run("export", "bullets.txt", "--format", "bullets", "--skillbook", book, "--yes")
        assert done.out == f"exported 2 skills of {book} to bullets.txt as bullets\n"
        text = (folder / "bullets.txt").read_text(encoding="utf-8")
        assert text.splitlines() == AGENTS.splitlines()[4:]
    assert run("export", "-", "--format", "bullets", "--skillbook", "book0.db").out == text
    assert sorted(contents(folder / "book2.db")) == ["ts-001", "ts-002"]


def test_a_book_starts_from_the_bullet_lines_or_the_block_of_a_file(folder: Path, store: Path, run: Run) -> None:
    path = folder / "AGENTS.md"
    assert read_start(path) is None
    path.write_text("# How to work here\n\n- Run `make test`.\n", encoding="utf-8")
    assert read_start(path) is None
    path.write_text(AGENTS, encoding="utf-8")
    found = read_start(path)
    assert found is not None
    assert [(skill.id, skill.helpful, skill.section) for skill in found] == [
        ("ts-001", 12, "TypeScript Patterns"),
        ("ts-002", 0, "TypeScript Patterns"),
    ]
    assert run("export", "AGENTS.md").code == 0
    block = read_start(path)
    assert block is not None
    assert {skill.id: skill.content for skill in block} == contents(store)
    write_managed_block(path, "")
    assert read_start(path) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"<!-- ace:skills begin -->\n", "1 begin and 0 end marks"),
        (b"caf\xe9\n", "not UTF-8"),
        (b"[Bullet #a, helpful:1, harmful:0] x\n" * 2, "line 2: the id 'a' appears twice"),
    ],
)
def test_a_file_that_a_book_cannot_start_from_is_named(folder: Path, data: bytes, said: str) -> None:
    (folder / "AGENTS.md").write_bytes(data)
    with pytest.raises(UsageError, match=said) as caught:
        read_start(folder / "AGENTS.md")
    assert "AGENTS.md" in str(caught.value)


def test_only_a_book_without_any_version_starts_from_a_file(folder: Path, store: Path) -> None:
    path = folder / "AGENTS.md"
    path.write_text(AGENTS, encoding="utf-8")
    with Skillbook.open(folder / "new.db") as book:
        assert start_from_file(book, folder / "none.md") == 0
        assert start_from_file(book, path) == 2
        assert start_from_file(book, path) == 0
        assert book.version == 1
        assert book.history()[0].author == "start from AGENTS.md"
        book.remove_skill("ts-001")
        book.remove_skill("ts-002")
        assert start_from_file(book, path) == 0
    with Skillbook.open(store) as book:
        before = book.dumps()
        assert start_from_file(book, path) == 0
        assert book.dumps() == before
