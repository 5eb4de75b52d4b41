"""A misspelt option is an error that names the right one; it is never taken for a path, a question or a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Run

MISSPELT = [
    (["learn", "logs", "--mdoel", "x"], "--mdoel", "--model"),
    (["learn", "logs", "-", "--dry-rnu"], "--dry-rnu", "--dry-run"),
    (["learn", "--workesr=4", "logs"], "--workesr", "--workers"),
    (["train", "samples.jsonl", "--validat", "x"], "--validat", "--validate"),
    (["eval", "samples.jsonl", "--repeat", "2"], "--repeat", "--repeats"),
    (["ask", "--withuot-skills", "Why?"], "--withuot-skills", "--without-skills"),
    (["ask", "Why?", "--contxt", "x"], "--contxt", "--context"),
    (["skillbook", "show", "--formt", "json"], "--formt", "--format"),
    (["skillbook", "import", "a.json", "--skilbook", "b.db"], "--skilbook", "--skillbook"),
    (["skillbook", "merge", "a.json", "-o", "b.db", "--jsno"], "--jsno", "--json"),
    (["models", "pull", "--yse"], "--yse", "--yes"),
    (["plugins", "new", "acme", "--jso"], "--jso", "--json"),
]


@pytest.mark.parametrize(("arguments", "misspelt", "right"), MISSPELT)
def test_the_error_names_the_right_option(here: Run, arguments: list[str], misspelt: str, right: str) -> None:
    done = here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert f"unknown option {misspelt!r}" in done.err and f"did you mean {right!r}?" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--zzz", "--out", "--paragraph"])
def test_an_option_that_resembles_none_is_not_taken_for_a_path_either(here: Run, option: str) -> None:
    done = here("learn", "logs", option)
    assert (done.code, done.out) == (2, "")
    assert f"unknown option {option!r}" in done.err and "did you mean" not in done.err


def test_what_follows_the_delimiter_is_a_path(here: Run, tmp_path: Path) -> None:
    assert "no such file or folder: '--mdoel'" in here("learn", "--", "--mdoel").err


def test_a_question_may_begin_with_a_hyphen(here: Run) -> None:
    done = here("ask", "-5 + 3, what is that?", "--skillbook", "nothing.db")
    assert "no such skillbook: 'nothing.db'" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train"], "the argument PATH... is missing"),
        (["learn", "logs", "--model"], "the option --model needs a value"),
        (["skillbook", "merge", "a.json"], "the option --output is required"),
        (["skillbook", "rollback", "x"], "VERSION must be a whole number, got 'x'"),
        (["learn", "logs", "--epochs", "y"], "--epochs must be a whole number, got 'y'"),
        (["skillbook", "diff", "1", "2", "3"], "unexpected argument '3'"),
        (["--mdoel", "x"], "unknown option '--mdoel'; the options of a command follow its name"),
        (["get", "--json"], "a command of `ace get` is missing before '--json'"),
        (["skillbook", "sho"], 'unknown command "sho"'),
        (["learn", "logs", "--json=3"], "for --json"),
        (["learn", "logs", "--provenance", "x"], 'invalid value "x" for --provenance. Choose from: "full", "ids"'),
    ],
)
def test_wrong_usage_is_told_in_one_plain_sentence(here: Run, arguments: list[str], said: str) -> None:
    done = here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err and "--help` shows how to use it" in done.err
    assert done.err.count("\n") == 1 and "Error" not in done.err


def test_a_new_plugin_is_reported_as_json(here: Run, tmp_path: Path) -> None:
    done = here("plugins", "new", "acme", "--output", "made", "--json")
    assert done.data["command"] == "plugins new"
    assert all((tmp_path / file).is_file() for file in done.data["files"])


SECRET_PLACE = "acme://ann:s3cret@team/skills"


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", SECRET_PLACE],
        ["train", SECRET_PLACE],
        ["eval", SECRET_PLACE],
        ["eval", "samples.jsonl", "--report", SECRET_PLACE],
        ["eval", "samples.jsonl", "--answers", SECRET_PLACE],
        ["plugins", "new", "tide", "--output", SECRET_PLACE],
        ["skillbook", "export", SECRET_PLACE, "--format", "json"],
        ["skillbook", "prune", "--unneeded", "--answers", SECRET_PLACE],
        ["skillbook", "test", "--junit", SECRET_PLACE],
    ],
    ids=" ".join,
)
def test_the_location_of_a_store_is_not_a_path(here: Run, tmp_path: Path, arguments: list[str]) -> None:
    done = here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(" takes a file or a folder, not 'acme://[hidden]@team/skills'\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["learn", "log/"], "logs"),
        (["inspect", "logs/chta.json"], "logs/chat.json"),
        (["skillbook", "show", "--skillbook", "skils.json"], "skills.json"),
        (["skillbook", "import", "skill.json", "--skillbook", "b.db"], "skills.json"),
        (["train", "logs", "--config", "rnu.yaml"], "run.yaml"),
    ],
)
def test_a_misspelt_path_is_answered_with_the_near_one(
    here: Run, tmp_path: Path, arguments: list[str], meant: str
) -> None:
    (tmp_path / "logs").mkdir()
    for name in ("logs/chat.json", "skills.json", "run.yaml"):
        (tmp_path / name).write_text("{}")
    done = here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert f"did you mean {meant!r}?" in done.err


def test_a_skillbook_in_the_place_of_an_id_is_answered_with_the_option(here: Run, tmp_path: Path) -> None:
    (tmp_path / "skills.json").write_text('{"skills": {}}')
    done = here("skillbook", "show", "skills.json", "--skillbook", "skills.json")
    assert done.code == 2 and "give --skillbook skills.json" in done.err


@pytest.mark.parametrize(
    ("word", "option"), [(["help"], ["--help"]), (["help", "learn"], ["learn", "--help"]), (["version"], ["--version"])]
)
def test_help_and_version_are_words_too(here: Run, word: list[str], option: list[str]) -> None:
    assert here(*word).out == here(*option).out != ""
