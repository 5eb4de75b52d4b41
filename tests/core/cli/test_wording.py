"""The help of every command has an example, and its settings name their variables.

`tests/docs/test_plain_english.py` looks at the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc

import pytest
from cyclopts import App

from ace.cli.app import build_app
from ace.cli.command_table import ace_commands
from ace.cli.start import run
from ace.plugins import CommandSpec, hookimpl, temporary

OF_EVERY_COMMAND = {"--help", "-h", "--version"}


def commands_in(app: App, name: str) -> Iterator[tuple[str, App]]:
    yield name, app
    for below in app:
        if below not in OF_EVERY_COMMAND:
            yield from commands_in(app[below], f"{name} {below}")


ALL = [command for row in ace_commands() for command in commands_in(build_app([row.name])[row.name], row.name)]


# Read before any test runs: where another command is called in the same process, cyclopts sets a short help.
HELP = [(name, cleandoc(str(command.help))) for name, command in ALL if command.default_command is not None]


@pytest.mark.parametrize(("name", "text"), HELP, ids=[name for name, _ in HELP])
def test_every_command_has_an_example_that_calls_it(name: str, text: str) -> None:
    examples = re.findall(r"^    (?:.*\| )?(?:[A-Z]+=\S+ |[A-Z]+=\".*\" )?ace (.*)$", text, re.MULTILINE)
    assert any(example == name or example.startswith(f"{name} ") for example in examples)


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_options_that_are_settings_name_their_variable(name: str, command: App) -> None:
    if command.default_command is None:
        return
    settings = {"model", "api-base", "max-tokens", "temperature", "timeout", "epochs", "workers", "lag", "max-cost"}
    for argument in command.assemble_argument_collection(parse_docstring=True):
        option = argument.names[0].removeprefix("--")
        if option in settings | {"skillbook"}:
            assert f"[env: ACE_{option.upper().replace('-', '_')}]" in str(argument.parameter.help), option
        if option == "yes":
            assert argument.parameter.help == "Do not ask for confirmation."


class Hooks:
    ACE_API = 1

    @hookimpl
    def ace_commands(self) -> Iterator[CommandSpec]:
        yield CommandSpec(name="hoot", target=f"{__name__}:hoot", summary="Hoot.")


def hoot(*names: str, tone: str = "", loud: bool = False, times: int = 3, at: str | None = None) -> None:
    """Hoot.

    Args:
        names: Who is called.
        tone: The tone.
        loud: Hoot loudly.
        times: How often.
        at: When. [default: at night]
    """


def test_the_help_of_a_command_shows_no_default_of_an_option_that_is_not_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with temporary(Hooks(), name="hoot"):
        assert run(["hoot", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  --{option}" in shown for option in ("tone", "loud", "times", "at"))
    assert sorted(re.findall(r"\[default: (.*?)\]", shown)) == ["3", "at night"]
