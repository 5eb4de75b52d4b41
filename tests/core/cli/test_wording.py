"""The command line speaks plain English: help texts and messages are free of the phrases that once made them odd.

House rules and the words to use instead: CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest
from cyclopts import App

import ace.cli
from ace.cli.app import build_app
from ace.cli.command_table import ace_commands

SOURCES = Path(ace.cli.__file__).parent
OF_EVERY_COMMAND = {"--help", "-h", "--version"}

ODD = re.compile(
    r"""
    (?<!there\ )(?<!There\ )\b(is|are|was|were)\ no\ (?!longer\b|more\b)   # X is no Y -> is not a Y
    | \bmakes?\ no\ sense\b
    | \bstands?\ (in|below|beside|for|there)\b
    | \b(go|goes|going)\ on\ (with|where)\b                                # -> continues, resumes
    | \bsomebody\b | \bnobody\b | \b[Ww]hoever\b | \bfor\ ever\b
    | \bpassed\ over\b | \b(taken|takes\ it|taken\ up)\ (back|again)\b | \bbroken\ off\b
    | \bleft\ out\b | \bleaves?\ out\b
    | \bmend(s|ed)?\b
    | \bin\ sight\b | \bsay\ the\ same\b
    | \bso\ (many|much)\ [\w ]+\bat\ most\b | \bBegin\ nothing\b
    | \bwhat\ there\ is\b | \bwants?\ (a|an|whole)\b | \bown\ server\b(?<!your\ own\ server)
    | \btaken\ in\b | \btakes?\ (them|it)\ out\b | \bmarked\ invalid\b
    """,
    re.VERBOSE,
)

STREAMS_OF_OTHERS = ("inputs", "plugin_template")
"""Folders whose texts are put right with what they do."""


def texts_in(source: Path) -> Iterator[tuple[int, str]]:
    """The text constants of a module, parts of f-strings and docstrings included, with their lines."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, " ".join(node.value.split())


def commands_in(app: App, name: str) -> Iterator[tuple[str, App]]:
    yield name, app
    for below in app:
        if below not in OF_EVERY_COMMAND:
            yield from commands_in(app[below], f"{name} {below}")


ALL = [each for row in ace_commands() for each in commands_in(build_app([row.name])[row.name], row.name)]


@pytest.mark.parametrize(
    "phrase",
    [
        "the file is no TOML",
        "A value that makes no sense",
        "what stands in a trace",
        "goes on where it stopped",
        "so that nobody is asked",
        "a run that was broken off",
        "skills that say the same",
        "`ace --help` lists what there is",
        "wants a whole number from 1",
        "with --api-base for an own server",
    ],
)
def test_the_patterns_find_what_they_are_for(phrase: str) -> None:
    assert ODD.search(phrase)


@pytest.mark.parametrize("phrase", ["there is no skillbook 'x'", "your own server", "it is no longer there", "amends"])
def test_the_patterns_leave_plain_english_alone(phrase: str) -> None:
    assert not ODD.search(phrase)


def test_no_text_of_the_command_line_has_an_odd_phrase() -> None:
    found = []
    for source in sorted(SOURCES.rglob("*.py")):
        if source.relative_to(SOURCES).parts[0] not in STREAMS_OF_OTHERS:
            odd = ((line, ODD.search(text)) for line, text in texts_in(source))
            found += [f"{source.relative_to(SOURCES)}:{line}: {match[0]}" for line, match in odd if match]
    assert found == []


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_has_an_example_that_calls_it(name: str, command: App) -> None:
    if command.default_command is None:
        return  # a group, whose commands have their own
    examples = re.findall(
        r"^    (?:.*\| )?(?:[A-Z]+=\S+ |[A-Z]+=\".*\" )?ace (.*)$", cleandoc(str(command.help)), re.MULTILINE
    )
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
