"""`ace plugins new`: writes a plugin, refuses to overwrite one, and names that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Run, ace

FILES = [
    "README.md",
    "pyproject.toml",
    "src/ace_night_owl/__init__.py",
    "src/ace_night_owl/execute.py",
    "src/ace_night_owl/plugin.py",
    "src/ace_night_owl/py.typed",
    "src/ace_night_owl/result.py",
    "src/ace_night_owl/to_trace.py",
    "tests/test_conformance.py",
]


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["night-owl", "night_owl"])
def test_a_plugin_is_written_into_the_working_folder(name: str, tmp_path: Path) -> None:
    done = ace("plugins", "new", name, folder=tmp_path)
    assert done.code == 0
    assert done.out.splitlines() == [f"ace-night-owl/{file}" for file in FILES]
    assert files_in(tmp_path / "ace-night-owl") == FILES
    assert "python -m pip install --editable ." in done.err
    for file in FILES:
        text = (tmp_path / "ace-night-owl" / file).read_text(encoding="utf-8")
        assert "${" not in text and "$" not in text


def test_what_else_a_plugin_has_is_chosen(here: Run, tmp_path: Path) -> None:
    assert here("plugins", "new", "night-owl", "--with", "command,runner", "--with", "observer").code == 0
    more = {f"src/ace_night_owl/{kind}.py" for kind in ("command", "observer", "runner")}
    assert set(files_in(tmp_path / "ace-night-owl")) == {*FILES, *more}
    wrong = here("plugins", "new", "acme", "--with", "comand")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "ace: --with takes command, logs, observer, runner, not 'comand'\n"
    assert not (tmp_path / "ace-acme").exists()


def test_another_folder_is_made(here: Run, tmp_path: Path) -> None:
    assert here("plugins", "new", "acme", "--out", "my/plugins").code == 0
    assert (tmp_path / "my" / "plugins" / "ace-acme" / "pyproject.toml").is_file()


def test_nothing_is_overwritten(here: Run, tmp_path: Path) -> None:
    (tmp_path / "ace-acme").mkdir()
    (tmp_path / "ace-acme" / "README.md").write_text("mine", encoding="utf-8")
    done = here("plugins", "new", "acme")
    assert (done.code, done.out) == (2, "")
    assert done.err == "ace: ace-acme already exists, so nothing was written; choose another name or --output\n"
    assert files_in(tmp_path / "ace-acme") == ["README.md"]
    assert (tmp_path / "ace-acme" / "README.md").read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_way_is_named(here: Run, tmp_path: Path) -> None:
    (tmp_path / "plugins").write_text("", encoding="utf-8")
    done = here("plugins", "new", "acme", "--out", "plugins")
    assert (done.code, done.err) == (2, "ace: plugins/ace-acme: Not a directory\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Night Owl",
            "'Night Owl' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'night_owl'",
        ),
        (
            "../acme",
            "'../acme' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'acme'",
        ),
        (
            "7",
            "'7' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'acme'",
        ),
        (
            "",
            "'' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'acme'",
        ),
        (
            "a__b",
            "'a__b' cannot name a plugin: use a-z, 0-9 and single hyphens, such as 'a_b'",
        ),
        ("ace-acme", "'ace-acme' gets 'ace-' in front by itself; write 'acme'"),
        ("langchain", "the name 'langchain' belongs to ACE itself; choose another one"),
        ("core", "the name 'core' belongs to ACE itself; choose another one"),
    ],
)
def test_a_name_that_cannot_be_is_refused(here: Run, name: str, said: str, tmp_path: Path) -> None:
    done = here("plugins", "new", name)
    assert (done.code, done.out, done.err) == (2, "", f"ace: {said}\n")
    assert files_in(tmp_path) == []
