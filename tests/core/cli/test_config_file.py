"""`--config FILE` in TOML or YAML, and the settings of a run in the table `learning`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.cli.errors import UsageError
from ace.cli.settings import load_settings
from ace.cli.settings_file import plugin_setting
from tests.support.command_line import Run
from tests.support.scripted_server import ScriptedServer

TOML = """\
model = "openai/other"
skillbook = "team.db"

[learning]
epochs = 2
fail_fast = true
allow = ["email_address", "copied_answer"]
checkpoint_dir = "copies"
checkpoint_interval = 3
max_cost = 1.5
"""
YAML = """\
# for the night
model: openai/other
skillbook: team.db
learning:
  epochs: 2
  fail_fast: true
  allow: [email_address, copied_answer]
  checkpoint_dir: copies
  checkpoint_interval: 3
  max_cost: 1.5
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", ["toml", "yaml", "yml"])
def test_both_formats_say_the_same(suffix: str, tmp_path: Path) -> None:
    file = write(tmp_path / "night" / f"run.{suffix}", TOML if suffix == "toml" else YAML)
    settings = load_settings({}, config=file, environ={"HOME": str(tmp_path)}, folder=tmp_path)
    assert (settings.model, settings.skillbook) == ("openai/other", str(tmp_path / "night" / "team.db"))
    assert (settings.epochs, settings.run.fail_fast, settings.run.max_cost) == (2, True, 1.5)
    assert settings.learning.allow == ("email_address", "copied_answer")
    assert (settings.learning.checkpoint_dir, settings.learning.checkpoint_interval) == (
        str(tmp_path / "night" / "copies"),
        3,
    )
    assert settings.origins["epochs"] == f"{file}, line 5"
    assert settings.origins["checkpoint_interval"] == f"{file}, line 9"


def test_variables_and_flags_win_over_the_file_which_wins_over_those_of_user_and_project(tmp_path: Path) -> None:
    write(tmp_path / ".config/ace/config.toml", "epochs = 5\n[learning]\nworkers = 5\nlag = 5\n")
    write(tmp_path / "ace.toml", "[learning]\nworkers = 4\nlag = 4\nshuffle = 4\nfail_fast = false\n")
    file = write(tmp_path / "run.yaml", "learning:\n  lag: 3\n  shuffle: 3\n  fail_fast: true\n")
    environ = {"HOME": str(tmp_path), "ACE_SHUFFLE": "2", "ACE_FAIL_FAST": "0"}
    settings = load_settings({"fail_fast": None}, config=file, environ=environ, folder=tmp_path)
    found = (settings.epochs, settings.run.workers, settings.lag, settings.run.shuffle, settings.run.fail_fast)
    assert found == (5, 4, 3, 2, False)
    flags = load_settings({"fail_fast": True, "shuffle": 1}, config=file, environ=environ, folder=tmp_path)
    assert (flags.run.shuffle, flags.run.fail_fast) == (1, True)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.yaml", "learning:\n  epochs: many\n", ["line 2", "'epochs'", "whole number", "'many'"]),
        ("a.yaml", "learning:\n  epoch: 2\n", ["line 2", "no such setting in [learning]: 'epoch'", "'epochs'"]),
        ("a.yaml", "learning:\n  model: openai/x\n", ["line 2", "no such setting in [learning]: 'model'"]),
        ("a.yaml", "epochs: 1\nlearning: {epochs: 2}\n", ["line 2", "'epochs' is already in line 1"]),
        ("a.yaml", "epochs: 1\nepochs: 2\n", ["line 2", "'epochs' is already in line 1"]),
        ("a.yaml", "epochs: [\n", ["line 2", "not YAML"]),
        ("a.yaml", "- epochs\n", ["line 1", "name: value"]),
        ("a.yaml", "? [a]\n: 1\n", ["line 1", "must be a word"]),
        ("a.yaml", "a: &a [*a]\n", ["line 1", "no such setting: 'a'"]),
        ("a.yaml", "allow: &a [*a]\n", ["line 1", "'allow' must be a list of words"]),
        ("a.yaml", "\nworkers: 2026-99-99\n", ["line 2", "'workers'", "does not match its type"]),
        ("a.yaml", "\nworkers: !!timestamp x\n", ["line 2", "'workers'", "does not match its type"]),
        ("a.yaml", "\nfail_fast: !!bool maybe\n", ["line 2", "'fail_fast'", "does not match its type"]),
        ("a.yaml", "\nallow: [!!int '']\n", ["line 2", "'allow'", "does not match its type"]),
        ("a.yaml", "learning:\n  workers: <<\n", ["line 2", "'workers'", "merge"]),
        ("a.yaml", f"workers: {'[' * 5000}", ["nested too deeply"]),
        ("a.yaml", "model: !!python/name:os.system x\n", ["line 1", "'model'", "python/name"]),
        ("a.yaml", "fail_fast: 1\n", ["line 1", "'fail_fast' must be true or false, got 1"]),
        ("a.toml", "[learning]\nepochs = 0\n", ["line 2", "'epochs'", "got 0"]),
        ("a.toml", "epochs = 1\n[learning]\n\nepochs = 2\n", ["line 4", "'epochs' is already in line 1"]),
        ("a.toml", "[learning\n", ["not TOML", "line 1"]),
        ("a.toml", "[lerning]\nepochs = 2\n", ["line 1", "no such setting: 'lerning'", "[learning]"]),
        ("a.toml", "[train]\nepochs = 2\n", ["line 1", "no such setting: 'train'", "[learning]"]),
        ("a.yaml", "model:\n  name: x\n", ["line 1", "'model' must be a value, not a table"]),
        ("a.yaml", "model: x\nadaptation:\n  epochs: 3\n", ["line 2", "no plugin 'adaptation'", "[learning]"]),
        ("a.toml", "epochs = 1\n\n[whatever]\nanything = 1\n", ["line 3", "no plugin 'whatever'", "[learning]"]),
        ("a.toml", "[training.run]\nepochs = 1\n", ["line 1", "no plugin 'training'"]),
    ],
)
def test_an_error_names_file_line_and_field(name: str, text: str, named: list[str], tmp_path: Path) -> None:
    file = write(tmp_path / name, text)
    with pytest.raises(UsageError) as raised:
        load_settings({}, config=file, environ={"HOME": str(tmp_path)}, folder=tmp_path)
    message = str(raised.value)
    assert "\n" not in message
    assert [part for part in [str(file), *named] if part not in message] == []


TAGS = st.sampled_from(
    [
        "",
        *(
            f"!!{tag} "
            for tag in ("int", "float", "bool", "null", "timestamp", "binary", "str", "set", "omap", "merge")
        ),
    ]
)
VALUES = st.one_of(
    st.sampled_from(["x", "''", "1", "1_0:9", "0x", ".", "=", "<<", "[]", "{}", "2026-13-01"]), st.text()
)


@settings(max_examples=300)
@given(tag=TAGS, value=VALUES, is_list=st.booleans())
def test_any_value_is_read_or_refused(tag: str, value: str, is_list: bool) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.yaml"
        line = f"workers: {'[' * is_list}{tag}{value}{']' * is_list}\n"
        file.write_text(line, encoding="utf-8", errors="backslashreplace")
        with suppress(UsageError):
            load_settings({}, config=file, environ={"HOME": folder}, folder=Path(folder))


def test_the_file_of_a_project_may_write_copies_only_inside_the_project(tmp_path: Path, here: Run) -> None:
    (tmp_path / "link").symlink_to(tmp_path.parent)
    for folder in (tmp_path.parent / "x", "../x", "a/../../x", "link/x"):
        write(tmp_path / "ace.toml", f'[learning]\ncheckpoint_dir = "{folder}"\n')
        done = here("config")
        assert (done.code, "line 2: 'checkpoint_dir' in the file of a project" in done.err) == (2, True), folder
    write(tmp_path / "ace.toml", '[learning]\ncheckpoint_dir = "copies"\n')
    assert here("config").code == 0


def test_a_run_with_a_file(here: Run, logs: Path, model: list[str], server: ScriptedServer, tmp_path: Path) -> None:
    lines = ["learning:", "  epochs: 2", "  lag: 0", "  checkpoint_dir: copies", "  checkpoint_interval: 4", ""]
    write(tmp_path / "run.yaml", "\n".join(lines))
    done = here("learn", logs, "--config", "run.yaml", "--json", *model)
    assert done.code == 0, done.err
    assert done.data["traces"]["learned"] == 12
    names = {path.name for path in (tmp_path / "copies").iterdir()}
    assert names == {"checkpoint_4.json", "checkpoint_8.json", "checkpoint_12.json", "latest.json"}
    latest = json.loads((tmp_path / "copies" / "latest.json").read_text(encoding="utf-8"))
    assert len(latest["skills"]) == done.data["skills"]["total"]
    server.clear()
    done = here("learn", logs, "--config", "none.yaml", *model)
    assert (done.code, server.requests) == (2, []) and "--config: no such file: 'none.yaml'" in done.err


def test_fail_fast_can_be_set_and_unset(here: Run, model: list[str], tmp_path: Path) -> None:
    records = [{"task": f"REFUSED {number}", "answer": "no"} for number in range(3)]
    write(tmp_path / "in.jsonl", "".join(f"{json.dumps(record)}\n" for record in records))
    command = ["learn", "in.jsonl", "--lag", "0", "--json", *model]
    stopped = here(*command, environ={"ACE_FAIL_FAST": "true"})
    assert (stopped.data["stopped_by"], len(stopped.data["failures"])) == ("fail_fast", 1)
    done = here(*command, "--no-fail-fast", "--skillbook", "b.db", environ={"ACE_FAIL_FAST": "true"})
    assert (done.data["stopped_by"], len(done.data["failures"])) == ("", 3)
    wrong = here(*command, environ={"ACE_FAIL_FAST": "maybe"})
    assert wrong.code == 2 and "ACE_FAIL_FAST must be true or false, got 'maybe'" in wrong.err


def test_the_table_of_a_plugin_that_is_not_installed_is_noted_in_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "ace.toml", "epochs = 2\n[acme]\ntest = 'pytest'\n")
    assert load_settings({}, environ={"HOME": str(tmp_path)}, folder=tmp_path).epochs == 2
    assert capsys.readouterr().err == (
        f"ace: {file}, line 2: no plugin 'acme' is installed that could use this table, so it is ignored; "
        "the settings of a run are in [learning]\n"
    )
    found = plugin_setting("acme", "test", environ={"HOME": str(tmp_path)}, folder=tmp_path)
    assert found == ("pytest", f"{file}, line 3")


def test_tables_of_plugins_and_mappings_are_taken_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "[beads]\ntest = 'a'\n[server]\nbatch_size = 2\n[[logs.mapping]]\nformat = 'x'\n[claude-code]\nx = 1\n"
    environ = {"HOME": str(tmp_path)}
    load_settings({}, config=write(tmp_path / "run.toml", text), environ=environ, folder=tmp_path)
    write(tmp_path / "ace.toml", text)
    load_settings({}, environ=environ, folder=tmp_path)
    assert capsys.readouterr().err == ""


def test_a_setting_of_a_plugin_comes_from_the_variable_then_the_project_then_the_user(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert plugin_setting("acme", "test", environ=environ, folder=tmp_path) is None
    for path, text in ((".config/ace/config.toml", "[acme]\ntest = 'a'\n"), ("ace.toml", "[acme]\ntest = 'b'\n")):
        write(tmp_path / path, text)
        found = plugin_setting("acme", "test", environ=environ, folder=tmp_path)
        assert found is not None
        assert f"test = {found.value!r}" in text
    found = plugin_setting("acme", "test", environ={**environ, "ACE_ACME_TEST": "c"}, folder=tmp_path)
    assert found == ("c", "variable ACE_ACME_TEST")


@pytest.mark.parametrize("value", ["7", "''", "['pytest']", "{a = 1}"])
def test_a_setting_of_a_plugin_that_is_not_a_text_is_a_sentence(tmp_path: Path, value: str) -> None:
    write(tmp_path / "ace.toml", f"[acme]\ntest = {value}\n")
    with pytest.raises(UsageError, match=r"ace\.toml, line 2: the setting 'test' in \[acme\] must be a text, got"):
        plugin_setting("acme", "test", environ={"HOME": str(tmp_path)}, folder=tmp_path)


def test_set_wins_over_all_other_sources(tmp_path: Path) -> None:
    write(tmp_path / "ace.toml", "epochs = 2\n")
    environ = {"HOME": str(tmp_path), "ACE_EPOCHS": "3"}
    assigned = ["epochs=4", "sections = a, b", "final-test=false"]
    settings = load_settings({}, assigned=assigned, command="learn", environ=environ, folder=tmp_path)
    assert (settings.epochs, settings.origins["epochs"]) == (4, "flag --set epochs")
    assert (settings.learning.sections, settings.learning.final_test) == (("a", "b"), False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs", "--set takes NAME=VALUE, such as --set epochs=3; got 'epochs'"),
        ("epochs=0", "the option --set epochs must be a whole number from 1 to 10,000, got 0"),
        ("epoch=2", "--set: no such setting: 'epoch'; did you mean 'epochs'?"),
        ("group=2", "--set: `ace train` does not use the setting 'group'"),
        ("api_key=x", "--set: `ace train` does not use the setting 'api_key'"),
        ("lag=2", "the setting 'lag' is given twice, by --lag and by --set"),
    ],
)
def test_a_wrong_set_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        load_settings({"lag": 1}, assigned=[text], command="train", environ={"HOME": str(tmp_path)}, folder=tmp_path)
