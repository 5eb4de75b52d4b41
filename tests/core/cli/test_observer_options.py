"""The options that plugins add for their observers: listed in the help, and checked before a command starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.cli.start import run
from ace.plugins import ObserverOption, ObserverSpec, hookimpl, temporary

SWITCH = ObserverOption(
    name="night-owl",
    summary="Watch the run.",
    values=("barn", "snowy"),
    required_variables={"snowy": ("OWL_KEY", "OWL_PLACE")},
)


class Hooks:
    ACE_API = 1

    @hookimpl
    def ace_observers(self) -> Iterator[ObserverSpec]:
        # The module does not exist, so nothing may import it.
        options = (SWITCH, ObserverOption(name="night-owl-loud", summary="Hoot"))
        yield ObserverSpec(name="night_owl", target="night_owl_missing.watch:watch", options=options)


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACE_NIGHT_OWL", "")
    monkeypatch.delenv("OWL_KEY", raising=False)
    monkeypatch.setenv("OWL_PLACE", " ")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("arguments", [["learn", "--help-all"], ["skillbook", "show", "--help-all"]])
def test_the_help_of_a_command_lists_them(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with temporary(Hooks(), name="night_owl"):
        assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "Options of plugins, for all commands:" in shown
    assert re.search(r"--night-owl barn\|snowy +Watch the run\.\n", shown)
    assert re.search(r"--night-owl-loud +Hoot\.\n", shown)


def test_a_plugin_that_cannot_be_loaded_does_not_prevent_help(tmp_path: Path) -> None:
    metadata = tmp_path / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[ace.plugins]\nbroken = broken_hooks\n", encoding="utf-8")
    (tmp_path / "broken_hooks.py").write_text(
        "from ace.plugins import hookimpl\nACE_API = 1\n"
        "@hookimpl\ndef ace_observers():\n    raise OSError('it cannot be loaded')\n",
        encoding="utf-8",
    )
    code = (
        "import sys; from ace.cli.start import run; run(['learn', '--help-all']); assert 'broken_hooks' in sys.modules"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert "Exit codes: 0 done" in done.stdout and done.stderr == ""


@pytest.mark.parametrize("option", [["--night-owl", "snowy"], ["--night-owl=snowy"]])
def test_a_variable_that_a_value_requires(
    option: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with temporary(Hooks(), name="night_owl"):
        assert run(["config", *option]) == 2
        both = "ace: --night-owl snowy requires OWL_KEY and OWL_PLACE; set the environment variables\n"
        assert capsys.readouterr() == ("", both)
        monkeypatch.setenv("OWL_KEY", "k")
        assert run(["config", *option]) == 2
        assert "requires OWL_PLACE; set" in capsys.readouterr().err
        monkeypatch.setenv("OWL_PLACE", "barn")
        assert run(["config", *option]) == 0


def test_other_values_require_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary(Hooks(), name="night_owl"):
        assert run(["config", "--night-owl", "barn"]) == 0
        assert run(["config", "--night-owl"]) == 0
