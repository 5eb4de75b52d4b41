"""Each row of the table in the reference holds: what a project may set, and what only the user may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from ace._internal.options import Option
from ace.cli.errors import UsageError
from ace.cli.settings import SETTINGS, Settings, load_settings
from ace_server.settings import IN_PROJECTS, ServerSettings
from ace_server.settings import load_settings as load_server_settings
from docs.generated_options import PAGE, trust_rows

HARMFUL: dict[str, list[object]] = {
    "model": ["acme/http://192.0.2.1", "/srv/weights"],
    "api_base": ["http://192.0.2.1/v1"],
    "skillbook": ["../private.db", "~/private.db", "/srv/private.db", "link/private.db", "acme://team/skills"],
    "block": ["../notes.md", "~/notes.md", "link/notes.md"],
    "logs": ["..", "~", "link"],
    "prompts": ["..", "~", "link"],
    "checkpoint_dir": ["..", "~/.ssh", "link"],
    "map": ["../map.toml", "~/map.toml", "link/map.toml"],
    "allow": ["secret", "email_address"],
    "provenance": ["full"],
    "max_adds": [51, 100_000],
}
"""Values that a project may not set, of the settings that it may set to something else."""
HARMLESS = {
    "model": "openai/gpt-4o-mini",
    "api_base": "http://localhost:11434/v1",
    "skillbook": "skills/shop.db",
    "block": "AGENTS.md",
    "logs": "notes",
    "prompts": "prompts",
    "checkpoint_dir": "copies",
    "map": "map.toml",
    "allow": "copied_answer",
    "provenance": "ids",
    "max_adds": 5,
}
LIMITED = [name for name, option in SETTINGS.items() if option.project and option.project.allowed != "nothing"]
REFUSED = [name for name, option in SETTINGS.items() if option.project and option.project.allowed == "nothing"]
FREE = [name for name, option in SETTINGS.items() if option.project is None]


class Home:
    """A user with settings, and a project with an `ace.toml`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own, self.project = folder / ".config" / "ace" / "config.toml", folder / "repo" / "ace.toml"
        for file in (self.own, self.project):
            file.parent.mkdir(parents=True)
        (self.project.parent / "link").symlink_to(folder)

    def settings(self) -> Settings:
        return load_settings({}, environ=self.environ, folder=self.project.parent)

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / ".config")}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Home(tmp_path)


def line(name: str, value: object) -> str:
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{name} = {shown}\n".replace("'", '"')


def possible(option: Option) -> object:
    """A value that differs from the default, if there is one."""
    if option.kind is bool:
        return not option.default
    if option.kind in (int, float):
        return option.kind(option.most or (option.least or 0) + 1)
    return [*(option.choices or ("a",))][-1]


def test_the_lists_above_are_complete() -> None:
    assert set(HARMFUL) == set(HARMLESS) == set(LIMITED)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in HARMFUL for value in HARMFUL[name]])
def test_a_project_cannot_set_it_to_that_and_the_user_can(home: Home, name: str, value: object) -> None:
    home.project.write_text(line(name, value), encoding="utf-8")
    with pytest.raises(UsageError, match=rf"repo/ace\.toml, line 1: '{name}' (in|may not be set in) the file of a pr"):
        home.settings()
    home.project.unlink()
    home.own.write_text(line(name, value), encoding="utf-8")
    assert home.settings().origins[name] == f"{home.own}, line 1"


@pytest.mark.parametrize("name", LIMITED)
def test_a_project_can_set_it_to_something_harmless(home: Home, name: str) -> None:
    home.project.write_text(line(name, HARMLESS[name]), encoding="utf-8")
    settings = home.settings()
    assert settings.origins[name] == f"{home.project}, line 1" and name in settings.of_project


@pytest.mark.parametrize("name", REFUSED)
def test_a_project_cannot_set_it_at_all_and_the_user_can(home: Home, name: str) -> None:
    for value in (possible(SETTINGS[name]), SETTINGS[name].default):
        if isinstance(value, SETTINGS[name].kind):
            home.project.write_text(line(name, value), encoding="utf-8")
            with pytest.raises(UsageError, match=f"'{name}' may not be set in the file of a project"):
                home.settings()
    home.project.unlink()
    home.own.write_text(line(name, possible(SETTINGS[name])), encoding="utf-8")
    settings = home.settings()
    assert settings.origins[name] == f"{home.own}, line 1" and name not in settings.of_project


@pytest.mark.parametrize("name", FREE)
def test_both_can_set_it_and_the_project_comes_later(home: Home, name: str) -> None:
    for file in (home.own, home.project):
        file.write_text(line(name, possible(SETTINGS[name])), encoding="utf-8")
        assert home.settings().origins[name] == f"{file}, line 1"


def of_service(home: Home) -> Callable[[], ServerSettings]:
    return lambda: load_server_settings(environ=home.environ, folder=home.project.parent)


@pytest.mark.parametrize("name", [setting.name for setting in fields(ServerSettings)])
def test_a_project_sets_only_how_fast_the_service_is(home: Home, name: str) -> None:
    load, default = of_service(home), getattr(ServerSettings(), name)
    values: dict[str, object] = {
        "publish": "always",
        "learning": "heuristic",
        "database": "postgresql://x/y",
        "hosts": ["evil.example"],
    }
    value = values.get(name, not default if isinstance(default, bool) else default)
    value = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    home.project.write_text(f"[server]\n{line(name, value)}", encoding="utf-8")
    if name in IN_PROJECTS:
        load()
    else:
        with pytest.raises(UsageError, match="not in the file of a project"):
            load()
        home.project.unlink()
        home.own.write_text(f"[server]\n{line(name, value)}", encoding="utf-8")
        load()


def test_no_setting_that_could_weaken_the_service_is_left_to_projects() -> None:
    numbers = {setting.name for setting in fields(ServerSettings) if setting.type in ("int", "float")}
    assert numbers > IN_PROJECTS and not {name for name in IN_PROJECTS if name.startswith(("keep_", "max_"))}
    assert all(setting.default is not MISSING for setting in fields(ServerSettings))


def rows_on_the_page() -> Iterator[str]:
    table = PAGE.read_text(encoding="utf-8").partition("## Who may set what")[2]
    return (row for row in table.splitlines() if row.startswith("| `") and "settings file" not in row)


def test_the_table_has_a_row_for_every_setting() -> None:
    assert list(rows_on_the_page()) == [f"| {' | '.join(row)} |" for row in trust_rows()]
    assert len(list(trust_rows())) == len(SETTINGS) + len(fields(ServerSettings))
