"""The page on the command line says what the commands say."""

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest
from cyclopts import App

from ace.cli.app import build_app
from ace.cli.command_table import ace_commands
from docs.command_line_page import PAGE, page

NAMES = [row.name for row in ace_commands()]
OF_EVERY_COMMAND = {"--help", "-h", "--version"}


def commands_in(app: App, name: str) -> Iterator[tuple[str, App]]:
    """A command and those below it, with their full names."""
    yield name, app
    for below in app:
        if below not in OF_EVERY_COMMAND:
            yield from commands_in(app[below], f"{name} {below}")


def test_the_page_is_generated_from_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.command_line_page`"


def test_the_page_is_the_same_in_a_program_started_with_python_m(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("any.program", None, origin="program.py"))
    monkeypatch.setattr(sys, "argv", ["program.py", "-x"])
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_has_a_help_text_on_the_page(name: str) -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for called, command in commands_in(build_app([name])[name], name):
        assert command.help, f"`ace {called}` has no help"
        assert " ".join(command.help.partition("\n\n")[0].split()) in text
        if command.default_command is None:
            continue
        for argument in command.assemble_argument_collection(parse_docstring=True):
            if argument.names == ("*",):
                continue  # options that several commands share; they follow one by one
            said = argument.parameter.help
            assert said, f"{argument.names} of `ace {called}` has no help"
            assert " ".join(said.split()) in text
            shown = argument.names[0] if argument.names[0].startswith("-") else argument.names[0].upper()
            assert shown in text
