"""`ace learn` on real files, with a model on loopback."""

import json
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Run, ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer

LESSONS = ["w0", "w1", "w2", "chat", "text"]


def lessons(path: Path) -> list[str]:
    with Skillbook.open(path) as book:
        return [skill.content for skill in book.skills()]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_traces_of_all_kinds_become_skills_that_name_their_trace(tmp_path: Path, logs: Path, model: list[str]) -> None:
    done = ace("learn", "logs", *model, folder=tmp_path)
    assert done.code == 0, done.err
    assert sorted(lessons(tmp_path / "skills.db")) == sorted(f"Remember LESSON {word}." for word in LESSONS)
    said = done.out.splitlines()
    assert said[0] == "Learned into skills.db: 5 skills added"
    table = dict(line.rsplit(None, 1) for line in said if line.startswith(("traces", "skills", "failed")))
    assert table == {"traces read": "6", "traces learned": "6", "skills added": "5", "skills in all": "5"}
    for word, place in {"w0": "logs/a.jsonl#1", "chat": "logs/b.json", "text": "logs/c.txt"}.items():
        [number] = [number for number, line in enumerate(said) if f"LESSON {word}." in line]
        assert said[number + 1].strip() == f"unproven, from {place}"
    assert said[-1] == "Next: ace skillbook show"
    assert "6 of 6 traces, 5 new skills" in done.err


def test_the_json_report_says_the_same_and_nothing_else_is_printed(
    here: Run, tmp_path: Path, logs: Path, model: list[str], server: ScriptedServer
) -> None:
    (logs / "d.txt").write_text("UNUSABLE", encoding="utf-8")
    (logs / "e.json").write_text('{"cut', encoding="utf-8")
    done = here("learn", "logs", "--json", *model)
    assert done.code == 1 and done.err.startswith("ace: 1 trace failed; ") and done.err.count("\n") == 1
    report = done.data
    assert report["schema"] == 1
    assert set(report) == {
        *("schema", "command", "skillbook", "dry_run", "model", "place", "run", "stopped_by", "gate", "given_up"),
        *("traces", "failures", "skills", "left_out", "new_skills", "pending_skills", "model_use"),
        *("proofs", "judged_by", "shortened"),
    }
    counts = {"read": 7, "learned": 6, "already_learned": 0, "failed": 2, "unreadable": 1, "not_begun": 0}
    assert report["traces"] == counts
    unused = ("pending", "updated", "tagged", "merged", "removed", "skipped")
    assert report["skills"] == {"added": 5, "total": 5, **dict.fromkeys(unused, 0)}
    assert [(failure["place"], failure["stage"]) for failure in report["failures"]] == [
        ("logs/e.json#1", "input"),
        ("logs/d.txt", "ReflectStep"),
    ]
    assert "no JSON object" in report["failures"][1]["reason"]
    assert {skill["content"]: skill["traces"] for skill in report["new_skills"]}["Remember LESSON w0."] == [
        "logs/a.jsonl#1"
    ]
    use = report["model_use"]
    assert use["calls"] == len(server.answered)
    assert (use["input_tokens"], use["output_tokens"]) == (server.input_tokens, server.output_tokens)
    failed = (tmp_path / "failures.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["raw_answers"][0] for line in failed] == ["no JSON at all"]


def test_what_could_not_be_read_is_told_apart_from_what_failed(here: Run, tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "logs").mkdir()
    for name, text in (("good.txt", "LESSON a"), ("bad.txt", "UNUSABLE"), ("cut.json", '{"cut')):
        (tmp_path / "logs" / name).write_text(text, encoding="utf-8")
    done = here("learn", "logs", *model)
    table = [line.split("  ", 1) for line in done.out.splitlines() if line.startswith(("inputs", "traces", "failed"))]
    assert {name: number.strip() for name, number in table} == {
        "inputs that cannot be read": "1",
        "traces read": "2",
        "traces learned": "1",
        "failed": "1",
    }


def test_what_a_stopped_run_did_not_begin_is_not_counted_as_failed(here: Run, logs: Path, model: list[str]) -> None:
    (logs / "0.txt").write_text("UNUSABLE", encoding="utf-8")
    done = here("learn", "logs", "--lag", "0", "--fail-fast", *model)
    counted = [line for line in done.err.splitlines() if "of 7 traces" in line]
    assert counted[-1].startswith("1 of 7 traces, 0 new skills, 1 failed")


@pytest.mark.parametrize("name", ["skills.db", "skills.json"])
def test_a_run_leaves_nothing_in_the_folder_for_temporary_files(tmp_path: Path, logs: Path, name: str) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    seen: set[str] = set()
    answer = learning_script()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        seen.update(path.name for path in temporary.iterdir())
        return answer(request)

    with ScriptedServer(script) as server:
        reached = ["--skillbook", name, "--model", "openai/scripted", "--api-base", server.api_base]
        done = ace("learn", "logs", *reached, folder=tmp_path, environ={"TMPDIR": str(temporary)})
    assert done.code == 0, done.err
    assert seen == set()


def test_what_a_model_wanted_in_vain_is_told_once_in_the_report(here: Run, tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"task": "LESSON a GHOST"}\n{"task": "LESSON b GHOST"}\n', encoding="utf-8")
    done = here("learn", "a.jsonl", *model)
    assert (done.code, "ghost" in done.err) == (0, False)
    [told] = [re.split("  +", line) for line in done.out.splitlines() if "ghost" in line]
    assert told == ["a judgement of a skill", "no such skill: 'ghost-00001'", "2"]
    data = here("learn", "a.jsonl", "--limit", "1", "--again", "--json", *model).data
    assert data["left_out"] == [
        {"operation": "TAG", "skill": "ghost-00001", "reason": "no such skill: 'ghost-00001'", "trace": "a.jsonl#1"}
    ]


def test_a_dry_run_shows_what_was_found_and_calls_no_model(
    here: Run, tmp_path: Path, logs: Path, model: list[str], server: ScriptedServer
) -> None:
    here("learn", "logs/a.jsonl", "--limit", "1", *model)
    before, asked = snapshot(tmp_path), len(server.requests)
    dry = here("learn", "logs", "--json", "--dry-run", *model)
    assert snapshot(tmp_path) == before and len(server.requests) == asked
    assert dry.data["formats"]["unknown"]["runs"] == 6 and dry.data["estimate"]["calls"] == 12
    assert "--limit 3 tries a few" in here("learn", "logs", "--dry-run", *model).out


@pytest.mark.parametrize("name", ["skills.json", "skills.db"])
def test_the_same_run_gives_the_same_skillbook_byte_for_byte(
    here: Run, tmp_path: Path, logs: Path, model: list[str], name: str
) -> None:
    saved = []
    for folder, run in {"first": ace, "second": here}.items():
        (tmp_path / folder).mkdir()
        done = run("learn", "../logs", "--lag", "0", "--skillbook", name, *model, folder=tmp_path / folder)
        assert done.code == 0, done.err
        with Skillbook.open(tmp_path / folder / name) as book:
            saved.append(book.dumps())
    assert saved[0] == saved[1]
    assert "2026-01-01T00:00:00" in saved[0]


def test_traces_come_from_standard_input(tmp_path: Path, model: list[str]) -> None:
    done = ace("learn", "-", "--json", *model, folder=tmp_path, stdin='{"task": "1", "answer": "LESSON a"}\n')
    assert [skill["traces"] for skill in done.data["new_skills"]] == [["stdin"]]


def test_epochs_limit_and_shuffle(here: Run, logs: Path, model: list[str]) -> None:
    done = here("learn", "logs", "--json", "--epochs", "2", "--limit", "2", "--shuffle", "3", *model)
    assert done.data["traces"]["read"] == 2
    assert done.data["traces"]["learned"] == 4


def test_the_skillbook_in_the_folder_is_no_trace(here: Run, logs: Path, model: list[str]) -> None:
    for _ in range(2):
        done = here("learn", ".", "--skillbook", "skills.db", "--json", *model, folder=logs)
        assert done.code == 0 and done.data["traces"]["read"] == 6


def test_fail_fast_stops_and_resume_goes_on(here: Run, logs: Path, model: list[str]) -> None:
    first = logs / "a.jsonl"
    good = first.read_text(encoding="utf-8")
    (logs / "0.txt").write_text("UNUSABLE", encoding="utf-8")
    done = here("learn", "logs", "--json", "--lag", "0", "--fail-fast", *model)
    assert done.code == 1
    assert done.data["stopped_by"] == "fail_fast"
    assert done.data["traces"]["learned"] == 0 and done.data["traces"]["failed"] == 1
    assert "--resume" in done.err
    assert good == first.read_text(encoding="utf-8")
    again = here("learn", "logs", "--json", "--lag", "0", "--resume", *model)
    assert again.data["run"] == done.data["run"]
    assert again.data["traces"]["learned"] == 6


def test_a_limit_on_the_cost_stops_the_run(here: Run, logs: Path, server: ScriptedServer) -> None:
    priced = ["--model", "openai/gpt-4o-mini", "--api-base", server.api_base]
    done = here("learn", "logs", "--json", "--lag", "0", "--max-cost", "0.0003", *priced)
    assert done.code == 1
    assert done.data["stopped_by"] == "max_cost"
    assert 0 < done.data["traces"]["learned"] < 6
    assert done.data["model_use"]["cost"] > 0.0003


def test_a_limit_on_the_cost_needs_a_price(here: Run, logs: Path, model: list[str]) -> None:
    done = here("learn", "logs", "--max-cost", "1", *model)
    assert done.code == 2
    assert "price" in done.err and "openai/scripted" in done.err


def unused_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def test_without_a_model_it_says_what_would_be_fetched_and_how(tmp_path: Path, logs: Path) -> None:
    before = snapshot(logs)
    done = ace("learn", "logs", folder=tmp_path, environ={"ACE_MODELS": str(tmp_path / "models")})
    assert done.code == 2 and done.out == ""
    assert "licence Apache-2.0" in done.err and "1.12 GB" in done.err
    assert done.err.endswith("run: ace models pull qwen2.5-coder-1.5b --yes\n")
    assert snapshot(logs) == before


@pytest.mark.parametrize(
    ("arguments", "environ", "named"),
    [
        (["--model", "gpt-4o"], {}, ["gpt-4o", "OPENAI_API_KEY"]),
        (["--model", "nonsense"], {}, ["'nonsense'", "provider"]),
        (["--model", "openai/x", "--api-base", "localhost:1"], {}, ["localhost:1", "http://"]),
        (["--model", "openai/x", "--api-base", "http://127.0.0.1:{unused}/v1"], {}, ["cannot be reached"]),
        (["--model", "openai/unknown", "--api-base", "{base}"], {}, ["openai/unknown", "does not know"]),
        (["--model", "openai/x", "--api-base", "{base}"], {"OPENAI_API_KEY": "sk-wrong-key"}, ["refused the key"]),
        (["--model", "openai/x", "--api-base", "{base}", "--workers", "0"], {}, ["--workers", "0"]),
        (["--model", "openai/x", "--api-base", "{base}", "--limit", "0"], {}, ["--limit", "0"]),
        (["--model", "openai/x", "--api-base", "{base}", "--max-cost", "-1"], {}, ["--max-cost", "-1"]),
        (["--model", "openai/x", "--api-base", "{base}"], {"ACE_MAX_COST": "0"}, ["variable ACE_MAX_COST", "got 0"]),
        (["--model", "openai/x", "--api-base", "{base}", "--skillbook", "notes.md"], {}, ["notes.md", ".db"]),
        (
            ["--model", "openai/x", "--api-base", "{base}", "--skillbook", "no/skills.db"],
            {},
            ["no such folder", "'no'"],
        ),
        (["--model", "openai/x", "--api-base", "{base}", "--skillbook", "logs"], {}, ["logs", "is a folder"]),
        (["--model", "openai/x", "--api-base", "{base}", "--skillbook", "a.json", "--resume"], {}, ["--resume", ".db"]),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_begun(
    here: Run,
    monkeypatch: pytest.MonkeyPatch,
    logs: Path,
    server: ScriptedServer,
    arguments: list[str],
    environ: dict[str, str],
    named: list[str],
) -> None:
    filled = [argument.format(base=server.api_base, unused=unused_port()) for argument in arguments]
    before = snapshot(logs)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    done = here("learn", "logs", *filled)
    assert done.code == 2
    assert done.out == ""
    lines = done.err.splitlines()  # whether the model answers is found out after the first line was printed
    first = [
        line.startswith(("ace: learning from 6 traces with ", "ace: Other JSON, CSV and text: ")) for line in lines
    ]
    assert first in ([False], [True, True, False])
    assert [word for word in named if word not in done.err] == []
    assert "sk-wrong-key" not in done.err
    assert server.by_role("reflector") == []
    assert snapshot(logs) == before


@pytest.mark.parametrize(
    ("path", "named"),
    [("nowhere", "nowhere"), ("empty", "no traces in 'empty'"), ("*.none", "*.none"), ("p.png", "an image")],
)
def test_inputs_that_give_nothing_are_told_before_the_model_is_asked(
    tmp_path: Path, here: Run, model: list[str], server: ScriptedServer, path: str, named: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    done = here("learn", path, *model)
    assert done.code == 2
    assert named in done.err and done.err.count("\n") == 1
    assert server.requests == []


def test_a_skillbook_that_is_none_is_left_as_it_is(tmp_path: Path, here: Run, logs: Path, model: list[str]) -> None:
    for name in ("broken.json", "broken.db"):
        (tmp_path / name).write_text('{"skills": ', encoding="utf-8")
        done = here("learn", "logs", "--skillbook", name, *model)
        assert done.code == 2 and name in done.err and done.err.count("\n") == 1
        assert (tmp_path / name).read_text(encoding="utf-8") == '{"skills": '


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write")
def test_a_folder_that_takes_no_file_is_told_before_anything_is_paid_for(
    here: Run, logs: Path, model: list[str], server: ScriptedServer
) -> None:
    for name in ("skills.json", "skills.db"):
        done = here("learn", "logs", "--skillbook", f"/proc/{name}", *model)
        assert (done.code, done.out) == (2, "")
        assert "/proc" in done.err and done.err.count("\n") == 1
    assert not [request for request in server.requests if request.role]


def test_a_key_of_a_settings_file_is_shown_and_written_nowhere(here: Run, tmp_path: Path) -> None:
    key = "key-of-my-own-settings"
    answer = learning_script()

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if request.role == "reflector" and "UNUSABLE" in request.text:
            return f"I was called with {request.headers['authorization']}"
        if request.role == "skill_manager":
            operations = [{"type": "ADD", "section": "s", "content": f"Send {key}."}]
            operations += [{"type": "REMOVE", "skill_id": key}]
            return {"reasoning": "", "operations": operations}
        return answer(request)

    with ScriptedServer(script) as server:
        settings = tmp_path / ".config/ace/config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'model = "openai/scripted"\napi_base = "{server.api_base}"\napi_key = "{key}"\n')
        (tmp_path / "a.jsonl").write_text(f'{{"task": "LESSON a {key}"}}\n{{"task": "UNUSABLE {key}"}}\n')
        done = [here("learn", "a.jsonl", *shown) for shown in ([], ["--json", "--skillbook", "other.json"])]
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {key}"}
        # A model is shown its own bad answer again, so only what we wrote is looked at.
        assert key not in "".join(request.messages[0]["content"] for request in server.requests)
    for run in done:
        assert run.code == 1
        assert "Send [hidden]." in run.out
        assert key not in run.out + run.err
    given = (settings, tmp_path / "a.jsonl")
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path not in given]
    assert [path.name for path in written if key.encode() in path.read_bytes()] == []
    assert {"skills.db", "other.json", "failures.jsonl"} <= {path.name for path in written}


def test_text_of_a_trace_cannot_steer_the_terminal(here: Run, tmp_path: Path, model: list[str]) -> None:
    (tmp_path / "a\x1b[31m.txt").write_text("LESSON x", encoding="utf-8")
    done = here("learn", "a\x1b[31m.txt", *model)
    assert done.code == 0 and "\x1b" not in done.out + done.err
