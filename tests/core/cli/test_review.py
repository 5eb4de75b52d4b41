"""`ace review`: what is pending, and the decisions about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace._internal.managed_block import write_managed_block
from ace.skill import InsightSource
from ace.skillbook import Skillbook
from ace.updates import UpdateBatch, UpdateOperation
from tests.support.command_line import Run

FIRST, SECOND, ACTIVE = "sums-00001", "sums-00002", "sums-00003"


@pytest.fixture(params=["skills.db", "skills.json"])
def location(request: pytest.FixtureRequest, tmp_path: Path, here: Run) -> str:
    book = Skillbook()
    source = InsightSource("runs.jsonl#3", "How long is the pier?", evidence="person")
    operations = [
        UpdateOperation("ADD", "sums", "Name the unit.", insight_source=source, pending="its proof failed"),
        UpdateOperation("ADD", "sums", "Always answer 7.", pending="no one judged it"),
        UpdateOperation("ADD", "sums", "Add slowly."),
    ]
    book.apply_update(UpdateBatch("", operations))
    book.save_to_file(tmp_path / str(request.param))
    return str(request.param)


def prompt_of(location: str) -> str:
    with Skillbook.open(location) as book:
        return book.as_prompt()


def test_the_pending_skills_are_listed_with_reason_evidence_and_origin(location: str, here: Run) -> None:
    done = here("review", location)
    assert done.code == 0, done.err
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == f"2 pending skills in {location}"
    assert f"{FIRST} Name the unit. its proof failed person runs.jsonl#3" in lines
    assert f"{SECOND} Always answer 7. no one judged it none -" in lines
    assert "Add slowly." not in done.out


def test_the_list_is_also_json(location: str, here: Run) -> None:
    data = here("review", location, "--json").data
    assert (data["command"], data["skillbook"]) == ("review", location)
    [first, second] = data["pending"]
    assert (first["id"], first["reason"], first["evidences"]) == (FIRST, "its proof failed", ["person"])
    assert first["sources"][0]["evidence"] == "person"
    assert (second["status"], second["evidences"]) == ("pending", [])


def test_an_accepted_skill_is_shown_to_agents(location: str, here: Run) -> None:
    done = here("review", location, "--accept", FIRST)
    assert done.code == 0, done.err
    assert done.out.startswith(f"accepted [{FIRST}]: Name the unit.")
    assert "Name the unit." in prompt_of(location) and "answer 7" not in prompt_of(location)
    assert [skill["id"] for skill in here("review", location, "--json").data["pending"]] == [SECOND]


def test_a_rejected_skill_is_listed_with_the_reason(location: str, here: Run) -> None:
    done = here("review", location, "--reject", SECOND, "--because", "One customer only.", "--json")
    assert done.code == 0, done.err
    assert [(skill["status"], skill["reason"]) for skill in done.data["skills"]] == [("invalid", "One customer only.")]
    [skill] = here("review", location, "--rejected", "--json").data["rejected"]
    assert (skill["id"], skill["reason"]) == (SECOND, "One customer only.")
    assert "One customer only." in here("review", location, "--rejected").out
    assert here("review", location, "--accept", SECOND).code == 0
    assert "Always answer 7." in prompt_of(location)


def test_both_decisions_at_once_are_one_version_that_can_be_undone(tmp_path: Path, here: Run) -> None:
    with Skillbook.open("skills.db") as book:
        for content in ("one", "two"):
            book.apply_update(UpdateBatch("", [UpdateOperation("ADD", "sums", content, pending="why not")]))
    done = here("review", "--accept", FIRST, "--reject", SECOND, "--because", "wrong")
    assert f"skills.db is at version 3; `ace undo {FIRST} {SECOND}` undoes this" in done.out
    assert "1 accepted, 1 rejected" in here("skillbook", "log").out
    undone = here("undo", FIRST, SECOND)
    assert undone.code == 0 and f"pending again [{FIRST}]: one" in undone.out
    assert len(here("review", "--json").data["pending"]) == 2


def test_nothing_pending(tmp_path: Path, here: Run) -> None:
    Skillbook().save_to_file("skills.json")
    assert here("review", "skills.json").out == "No skill in skills.json is pending.\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--accept", "sums-00009"), "has no skill 'sums-00009'"),
        (("--accept", FIRST, "--accept", ACTIVE), f"the skill '{ACTIVE}' is neither pending nor rejected, so nothing"),
        (("--reject", FIRST), "--reject requires --because with the reason"),
        (("--accept", FIRST, "--because", "x"), "--because is the reason for --reject, which is missing"),
        (("--accept", FIRST, "--reject", FIRST, "--because", "x"), "cannot be both accepted and rejected, so nothing"),
    ],
    ids=["unknown", "active", "no-reason", "no-rejection", "both"],
)
def test_decisions_that_are_not_possible_change_nothing(
    location: str, here: Run, options: tuple[str, ...], problem: str
) -> None:
    before = here("review", location, "--json").out
    done = here("review", location, *options)
    assert done.code == 2 and problem in done.err
    assert here("review", location, "--json").out == before


def test_show_and_pin_say_that_a_skill_is_pending(location: str, here: Run) -> None:
    shown = here("skillbook", "show", FIRST, "--skillbook", location).out
    assert "pending" in shown and "its proof failed" in shown
    done = here("skillbook", "pin", FIRST, "--skillbook", location)
    assert f"the skill '{FIRST}' is pending; `ace review --accept {FIRST}` makes it active" in done.err


BEFORE = {
    "no file": None,
    "an empty file": b"",
    "no line end": b"# Ours",
    "lines of Windows": b"# Ours\r\n\r\nRun make.\r\n",
    "an old block": b"# Ours\n<!-- ace:skills begin -->\n- mine\n<!-- ace:skills end -->\nRun make.\n",
}


@pytest.fixture
def landed(tmp_path: Path, here: Run) -> Path:
    """Two pending skills and an active one, in a project whose AGENTS.md shows the skills."""
    (tmp_path / "ace.toml").write_text('block = "AGENTS.md"\n', encoding="utf-8")
    with Skillbook.open("skills.db") as book:
        pending = [UpdateOperation("ADD", "sums", content, pending="why not") for content in ("one", "two")]
        book.apply_update(UpdateBatch("", [*pending, UpdateOperation("ADD", "sums", "Add slowly.")]))
    return tmp_path / "AGENTS.md"


def given(file: Path, contents: bytes | None) -> None:
    if contents is not None:
        file.write_bytes(contents)


def bytes_of(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("undone", [[FIRST, SECOND], [SECOND, FIRST]], ids=["first-first", "last-first"])
def test_undoing_what_was_accepted_restores_every_byte(
    landed: Path, here: Run, before: bytes | None, undone: list[str]
) -> None:
    given(landed, before)
    assert here("review", "--accept", FIRST).code == 0
    assert b"] one\n" in landed.read_bytes().replace(b"\r\n", b"\n")
    assert here("review", "--accept", SECOND).code == 0
    assert here("undo", undone[0]).code == 0
    assert f"[{undone[1]}]".encode() in landed.read_bytes()
    assert f"[{undone[0]}]".encode() not in landed.read_bytes()
    done = here("undo", undone[1], "--json")
    assert (done.code, done.data["skills"][0]["status"], done.data["undo"]) == (0, "pending", "")
    assert bytes_of(landed) == before


def test_what_the_user_writes_around_the_block_stays(landed: Path, here: Run) -> None:
    landed.write_bytes(b"# Ours\n")
    here("review", "--accept", FIRST)
    landed.write_bytes(b"# New title\n" + landed.read_bytes() + b"Run make.\n")
    assert here("undo", FIRST).code == 0
    assert landed.read_bytes() == b"# New title\n# Ours\nRun make.\n"


def test_a_block_that_a_run_wrote_since_loses_only_the_skill(landed: Path, here: Run) -> None:
    here("review", "--accept", FIRST)
    with Skillbook.open("skills.db") as book:
        book.add_skill("sums", "Check the sum.")
        write_managed_block(landed, book.as_markdown())
    assert here("undo", FIRST).code == 0
    shown = landed.read_text(encoding="utf-8")
    assert "Check the sum." in shown and "Add slowly." in shown and FIRST not in shown


def test_a_rejected_skill_leaves_the_block_and_comes_back(landed: Path, here: Run) -> None:
    with Skillbook.open("skills.db") as book:
        write_managed_block(landed, book.as_markdown())
    before = landed.read_bytes()
    assert here("review", "--reject", ACTIVE, "--because", "Slow.").code == 0
    assert b"Add slowly." not in landed.read_bytes()
    assert here("undo", ACTIVE).code == 0
    assert landed.read_bytes() == before


def test_a_rejection_writes_no_block_where_there_is_none(landed: Path, here: Run) -> None:
    assert here("review", "--reject", FIRST, "--because", "Wrong.").code == 0
    assert not landed.exists()


def test_another_skillbook_does_not_land_in_the_file_of_the_project(landed: Path, here: Run) -> None:
    with Skillbook.open("other.db") as book:
        book.apply_update(UpdateBatch("", [UpdateOperation("ADD", "sums", "three", pending="why not")]))
    assert here("review", "other.db", "--json").data["block"] is None
    assert here("review", "other.db", "--accept", FIRST).code == 0
    assert not landed.exists()
    assert here("review", "--json").data["block"] == str(landed)


def test_a_damaged_block_is_found_before_anything_is_decided(landed: Path, here: Run) -> None:
    landed.write_bytes(b"<!-- ace:skills begin -->\n")
    done = here("review", "--accept", FIRST)
    assert done.code == 2 and "1 begin and 0 end marks" in done.err and "nothing was changed" in done.err
    assert len(here("review", "--json").data["pending"]) == 2


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ((FIRST, ACTIVE), f"the skill '{ACTIVE}' was neither accepted nor rejected, so nothing was changed"),
        (
            (FIRST, SECOND),
            (
                f"the skill '{SECOND}' is pending: it was not accepted or rejected, or that was undone already, "
                "so nothing was changed"
            ),
        ),
        ((FIRST, "sums-00009"), "has no skill 'sums-00009'"),
    ],
)
def test_where_there_is_no_decision_nothing_is_undone(
    landed: Path, here: Run, ids: tuple[str, ...], problem: str
) -> None:
    here("review", "--accept", FIRST)
    before = landed.read_bytes()
    done = here("undo", *ids)
    assert done.code == 2 and problem in done.err
    assert landed.read_bytes() == before


def test_a_file_without_history_cannot_undo(here: Run) -> None:
    Skillbook().save_to_file("skills.json")
    done = here("undo", FIRST, "--skillbook", "skills.json")
    assert done.code == 2 and "keeps no history" in done.err
