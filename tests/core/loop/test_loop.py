"""`ace learn` with tasks: what is told about each attempt, modes, gates, and what it refuses to begin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ace._internal.managed_block import read_managed_block
from ace.loop import InsightLog
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook
from tests.support.attempts import append, attempt, attempts_script
from tests.support.command_line import Done, Run
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(attempts_script) as started:
        yield started


def texts(folder: Path) -> list[str]:
    with Skillbook.open(folder / "skills.db") as book:
        return [skill.content for skill in book.skills()]


def test_what_becomes_of_each_attempt_is_told(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(
        tmp_path,
        attempt("bd-1", "Fix the imports LESSON one BECAUSE src/a.ts"),
        attempt("bd-2", "Name it LESSON two", error=""),
        attempt("bd-3", "LOSE it BECAUSE src/a.ts"),
    )
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("rules", "Check the units.", metadata={"helpful": 2})
    done = here("learn", "--mode", "online", "--block", "AGENTS.md", *model)
    assert done.code == 0, done.err
    told = done.out.partition("Learned into")[0]
    folder = next((tmp_path / "logs" / "artifacts").iterdir())
    assert told == (
        "task bd-1: Fix the imports LESSON one BECAUSE src/a.ts (trace 1 of 3, failure, 1 file)\n"
        "  reflect  1 insight: 1 with confidence >= 0.80, 0 pending\n"
        "  update   1 new skill\n"
        "  gate     accepted: net score unchanged at 2, skills 1 -> 2 (+1)\n"
        f"  kept     version 2, logs/artifacts/{folder.name}\n"
        "task bd-2: Name it LESSON two (trace 2 of 3, failure)\n"
        "  reflect  1 insight: 0 with confidence >= 0.80, 1 pending\n"
        "  update   nothing to change\n"
        "task bd-3: LOSE it BECAUSE src/a.ts (trace 3 of 3, failure, 1 file)\n"
        "  reflect  1 insight: 1 with confidence >= 0.80, 0 pending\n"
        "  update   2 changes proposed\n"
        "  gate     refused: net score 2 -> 0 (-2)\n"
    )
    assert "3 traces, 1 accepted, 1 refused, 1 insight pending, 1 skill added; net score 2 -> 2 (+0)" in done.out
    assert texts(tmp_path) == ["Check the units.", "Remember LESSON one."]
    block = read_managed_block((tmp_path / "AGENTS.md").read_bytes())
    assert block is not None and "Remember LESSON one." in block
    data = here("learn", "--task", "bd-2,bd-4", "--json", *model).data
    assert (data["decisions"], data["epochs"], data["traces"]["already_learned"]) == ([], [], 1)


def test_json_has_the_decision_about_each_attempt(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"), attempt("bd-2", "LESSON two", error=""))
    data = here("learn", "--task", "bd-1,bd-2", "--json", *model).data
    first, second = data["decisions"]
    folder = next((tmp_path / "logs" / "artifacts").iterdir())
    assert {name: first[name] for name in ("task", "accepted", "reason", "version", "artifacts")} == {
        "task": "bd-1",
        "accepted": True,
        "reason": "net score unchanged at 0, skills 0 -> 1 (+1)",
        "version": 1,
        "artifacts": f"logs/artifacts/{folder.name}",
    }
    assert (first["before"]["skills"], first["after"]["skills"]) == (0, 1)
    assert (second["accepted"], second["reason"], second["version"]) == (False, "too few tasks have shown it", None)
    assert [epoch["pending"] for epoch in data["epochs"]] == [1]


def test_an_insight_that_a_later_attempt_supports_is_not_counted_as_pending(
    here: Run, tmp_path: Path, model: list[str]
) -> None:
    append(tmp_path, *(attempt(f"bd-{number}", "LESSON one", error="") for number in (1, 2, 3)))
    append(tmp_path, attempt("bd-4", "LESSON two", error=""))
    data = here("learn", "--mode", "online", "--json", *model).data
    assert [epoch["pending"] for epoch in data["epochs"]] == [1]
    assert here("status", "--json").data["insights"]["pending"] == 1


def test_the_files_of_the_loop_are_not_learned_from(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"))
    assert here("learn", "--mode", "online", *model).code == 0
    assert (
        here("learn", "logs", "--json", *model).data["traces"] | {"read": 1, "already_learned": 1}
        == (here("learn", "logs", "--json", *model).data["traces"])
    )


def test_the_legacy_mode_has_neither_insights_nor_a_gate(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one", error=""))
    assert here("learn", "--task", "bd-1", "--use-legacy", *model).code == 0
    assert texts(tmp_path) == ["Remember LESSON one."]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["execution_traces.jsonl"]


def test_a_dry_run_writes_nothing(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"), attempt("bd-2", "LESSON two", error=""))
    put_off = here("learn", "--task", "bd-2", *model)
    assert put_off.code == 0 and "No skill of skills.db was changed\n" in put_off.out
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = here("learn", "--mode", "online", "--dry-run", "--block", "AGENTS.md", *model)
    assert done.code == 0 and "execution_trace" in done.out and "Nothing was learned" in done.out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_offline_repeats_the_tasks_prunes_and_ends_when_nothing_changes(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("rules", "Guess.", metadata={"harmful": 3})
        book.add_skill("rules", "Never mind.", metadata={"harmful": 4})
    append(
        tmp_path,
        *(
            attempt(f"bd-{task}", f"LESSON w{task} BECAUSE src/a.ts", trace=f"{task}{part}")
            for task in range(4)
            for part in "ab"
        ),
    )
    done = here("learn", "--mode", "offline", "--epochs", "5", "--no-prove", *model)
    assert done.code == 0 and "ended after an epoch that changed no skill" in done.err
    told = re.findall(r"^task (bd-\d)", done.out, re.MULTILINE)
    epochs = [told[start : start + 8] for start in range(0, len(told), 8)]
    assert len(epochs) == 2 and epochs[0] != epochs[1]
    for epoch in epochs:
        assert epoch[::2] == epoch[1::2]  # the attempts at a task stay together
    assert sum(request.role == "reflector" for request in server.requests) == 16
    assert "removed after an epoch: rules-00002" in done.out
    assert "Never mind." not in texts(tmp_path) and "Guess." in texts(tmp_path)
    again = here("learn", "--mode", "offline", "--json", *model)
    assert (again.code, again.data["traces"]["learned"]) == (0, 8), "it ends after an epoch that changes nothing"


def test_offline_repeats_what_was_learned_online(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer
) -> None:
    append(tmp_path, *(attempt(f"bd-{task}", f"LESSON w{task} BECAUSE src/a.ts") for task in range(4)))
    assert here("learn", "--mode", "online", "--json", *model).data["traces"]["learned"] == 4
    server.clear()
    done = here("learn", "--mode", "offline", "--epochs", "3", "--json", *model)
    assert (done.code, done.data["traces"]["already_learned"]) == (0, 0), done.err
    assert "nothing to do" not in done.err
    assert len(server.by_role("reflector")) == done.data["traces"]["learned"] >= 4
    assert here("learn", "--mode", "online", "--json", *model).data["traces"]["already_learned"] == 4


def test_offline_ends_with_its_reason_in_json(here: Run, tmp_path: Path, model: list[str]) -> None:
    append(tmp_path, attempt("bd-1", "nothing to learn", error=""))
    data = here("learn", "--mode", "offline", "--json", *model).data
    assert (data["stopped_by"], len(data["epochs"])) == ("nothing_accepted", 1)


def test_an_epoch_that_only_removes_skills_changes_the_skillbook(here: Run, tmp_path: Path, model: list[str]) -> None:
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("rules", "Never mind.", metadata={"harmful": 4})
    append(tmp_path, attempt("bd-1", "nothing to learn", error=""))
    done = here("learn", "--mode", "offline", "--epochs", "1", *model)
    assert "removed after an epoch: rules-00001" in done.out
    assert "net score -4 -> 0 (+4)" in done.out
    assert re.search(r"^skills removed +1$", done.out, re.MULTILINE)
    assert "No skill of" not in done.out and texts(tmp_path) == []


def test_the_results_of_a_loop_that_ends_early_are_those_of_its_epochs(
    here: Run, tmp_path: Path, model: list[str]
) -> None:
    append(tmp_path, *(attempt(f"bd-{task}", f"LESSON w{task} BECAUSE src/a.ts") for task in range(4)))
    done = here("learn", "--mode", "offline", "--epochs", "7", "--no-prove", "--results", "r.json", "--json", *model)
    assert done.data["stopped_by"] == "nothing_accepted", done.err
    found = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["epochs"]
    assert [(epoch["epoch"], epoch["samples"], epoch["learned"]) for epoch in found] == [(1, 4, 4), (2, 4, 4)]
    told = done.data["epochs"]
    assert [{name: epoch[name] for name in told[0]} for epoch in found] == told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--mode", "online", "--min-confidence", "1.5"], "--min-confidence must be a number from 0 to 1, got 1.5"),
        (["--mode", "online", "--min-confidence", "nan"], "--min-confidence must be a number from 0 to 1, got nan"),
        (["--watch", "--mode", "offline"], "--mode offline needs a complete one"),
        (["--watch", "--resume"], "omit --resume"),
        (["--watch", "-"], "not standard input"),
        (["--watch", "a.jsonl", "b.jsonl"], "--watch takes one trace log, got 2 paths"),
        (["--watch", "--validate", "held.jsonl"], "no end at which to validate"),
        (["--watch", "--epochs", "2"], "omit --epochs"),
        (["--watch", "--dry-run"], "--dry-run"),
        (["--watch", "."], "is not a file"),
        (["--mode", "online", "--gate", "score"], "give --validate FILE"),
        (["--mode", "online", "--patience", "2"], "give --validate FILE"),
        (["--mode", "online", "--gate", "magic"], "--gate takes counters, cases, score, auto or none, not 'magic'"),
        (["--mode", "online", "--gate", "none,counters"], "--gate none cannot be combined"),
        (["--mode", "online", "--use-legacy", "--gate", "counters"], "--use-legacy means"),
        (["--mode", "online", "--skillbook", "s.json"], "needs a skillbook with a history"),
        (["--watch", "--gate", "none", "--skillbook", "s.json"], "--watch needs a skillbook with a history"),
        (["--task", "bd-9"], "no trace of bd-9; the input has traces of bd-1"),
        (["--mode", "online", "--max-deltas", "0"], "--max-operations must be"),
    ],
)
def test_wrong_requests_are_refused_before_anything_is_learned(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer, arguments: list[str], reason: str
) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"))
    done = here("learn", *arguments, *model)
    assert (done.code, server.requests) == (2, []), done.err
    assert reason in done.err
    assert not list(tmp_path.glob("s*.*")) and not (tmp_path / "logs" / "insights.jsonl").exists()


@pytest.mark.parametrize("content", ["<!-- ace:skills begin -->\n", None])
def test_a_block_that_cannot_be_written_is_told_before_anything_is_learned(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer, content: str | None
) -> None:
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"))
    block = tmp_path / "AGENTS.md"
    block.mkdir() if content is None else block.write_text(content, encoding="utf-8")
    done = here("learn", "--mode", "online", "--block", "AGENTS.md", *model)
    assert (done.code, "AGENTS.md" in done.err) == (2, True), done.err
    assert not [request for request in server.requests if request.role == "reflector"]


def test_the_cases_of_the_skillbook_are_the_default_gate(here: Run, tmp_path: Path) -> None:
    def script(request: ScriptedRequest) -> Any:
        if request.role == "agent":
            return {"reasoning": "", "final_answer": "14h30" if "14h30" in request.text else "noon"}
        return attempts_script(request)

    with Skillbook.open(tmp_path / "skills.db") as book:
        skill = book.add_skill("tides", "High water is at 14h30.")
        book.put_cases(skill.id, [SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))])
    append(tmp_path, attempt("bd-1", "LOSE it BECAUSE src/a.ts"), attempt("bd-2", "LESSON one BECAUSE src/a.ts"))
    with ScriptedServer(script) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        data = here("learn", "--mode", "online", "--json", *model).data
    assert [(decision["accepted"], decision["reason"]) for decision in data["decisions"]] == [
        (False, "1 case that passed fails"),
        (True, "no cases; net score unchanged at 0, skills 1 -> 2 (+1)"),
    ]
    assert texts(tmp_path) == ["High water is at 14h30.", "Remember LESSON one."]


GOOD, BAD = "Remember LESSON good.", "Remember LESSON bad."


def learn_good_and_bad(here: Run, folder: Path, *arguments: str) -> Done:
    """Learn one good and one harmful lesson, and validate after each."""

    def script(request: ScriptedRequest) -> Any:
        if request.role == "agent":
            return {"reasoning": "", "final_answer": "42" if GOOD in request.text and BAD not in request.text else "0"}
        return attempts_script(request)

    held_out = folder / "held.jsonl"
    held_out.write_text(json.dumps({"question": "The answer?", "ground_truth": "42"}) + "\n", encoding="utf-8")
    append(folder, attempt("bd-1", "LESSON good BECAUSE src/a.ts"), attempt("bd-2", "LESSON bad BECAUSE src/a.ts"))
    with ScriptedServer(script) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = here(
            *("learn", "--mode", "online", "--validate", held_out, "--validation-interval", "1", "--no-prove"),
            *("--no-merge", "--block", "AGENTS.md", *arguments, *model),
        )
    assert done.code == 0, done.err
    assert "validation after 1 trace: 100.0%" in done.err
    assert texts(folder) == [GOOD]
    assert BAD not in (folder / "AGENTS.md").read_text(encoding="utf-8")
    insights = InsightLog(folder / "logs" / "insights.jsonl").insights()
    assert [(insight.status, insight.reason) for insight in insights] == [
        ("accepted", ""),
        ("refused", "its skill was rolled back"),
    ]
    assert done.out.count("gate     accepted: net score") == 2
    return done


def test_the_score_gate_rolls_back_what_made_held_out_answers_worse(here: Run, tmp_path: Path) -> None:
    """The good lesson stays, and the history shows both. The default gate is asked too."""
    done = learn_good_and_bad(here, tmp_path)
    assert "validation after 2 traces: 0.0%, rolled back by the gate (it was 100.0%)" in done.err
    with Skillbook.open(tmp_path / "skills.db") as book:
        added = [event.skill.content for entry in book.history() for event in entry.events if hasattr(event, "skill")]
        assert added == [GOOD, BAD]
        assert [entry.author for entry in book.history()][-1].startswith("gate: validation fell from 1.0000 to 0.0000")


@pytest.mark.parametrize("gate", ["counters", "auto"])
def test_without_the_score_gate_the_best_state_is_restored_at_the_end(here: Run, tmp_path: Path, gate: str) -> None:
    done = learn_good_and_bad(here, tmp_path, "--gate", gate)
    assert "validation after 2 traces: 0.0%" in done.err and "rolled back by the gate" not in done.err


def test_of_a_log_of_thousands_of_lines_the_bad_ones_are_listed(here: Run, tmp_path: Path, model: list[str]) -> None:
    lines = [
        json.dumps(attempt(f"bd-{number % 50}", "", trace=str(number), error="").as_record()) for number in range(3000)
    ]
    for place in range(0, 3000, 100):
        lines[place] = lines[place].replace(f"bd-{place % 50}", "--status") if place % 200 else lines[place][:-20]
    log = tmp_path / "logs" / "execution_traces.jsonl"
    log.parent.mkdir()
    log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    everything = here("learn", "--task", "bd-49", "--json", "--no-prove", *model)
    traces = everything.data["traces"]
    # Lines that are no JSON are one problem with their number; those with a wrong id are one each.
    assert (everything.code, traces["learned"], traces["unreadable"]) == (0, 60, 16)
    assert len({failure["place"] for failure in everything.data["failures"]}) == 16
    assert any("15 damaged records are lost" in failure["reason"] for failure in everything.data["failures"])
    assert InsightLog(tmp_path / "logs" / "insights.jsonl").problems == []


def test_a_line_that_cannot_be_read_is_listed_and_is_not_a_failure_of_the_chosen_tasks(
    here: Run, tmp_path: Path, model: list[str]
) -> None:
    """Otherwise, one such line in the log would make every later attempt look as if it could not be learned."""
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"), attempt("bd-2", "LESSON two BECAUSE src/a.ts"))
    with (tmp_path / "logs" / "execution_traces.jsonl").open("a", encoding="utf-8") as log:
        log.write("nonsense\n")
    done = here("learn", "--task", "bd-1", *model)
    assert (done.code, texts(tmp_path)) == (0, ["Remember LESSON one."])
    assert re.search(r"execution_traces\.jsonl#3 +input +a line that is not JSON", done.out)
    again = here("learn", "--task", "bd-1", *model)
    assert again.code == 0
    assert "nothing to do: the trace had been learned before" in again.err
    assert here("learn", "--mode", "online", *model).code == 1


def test_a_setting_limits_the_size_of_the_copies(here: Run, tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "ace.toml").write_text("[learning]\nartifact_skills = 0\n", encoding="utf-8")
    append(tmp_path, attempt("bd-1", "LESSON one BECAUSE src/a.ts"))
    assert here("learn", "--task", "bd-1", *model).code == 0
    [folder] = (tmp_path / "logs" / "artifacts").iterdir()
    text = (folder / "playbook.md").read_text(encoding="utf-8")
    assert text.startswith("This skillbook has 1 skill. ") and "Remember LESSON one." in text
    (tmp_path / "ace.toml").write_text("[learning]\nartifact_skills = -1\n", encoding="utf-8")
    assert here("learn", "--task", "bd-1", *model).code == 2
