"""Writes what follows from the declarations of options: `python -m docs.generated_options`.

These are the keywords of the runners, as typed dictionaries in the source, and the reference page of options.
"""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import ace
from ace._internal.options import Option, options_of
from ace.cli.settings import SETTINGS, Settings
from ace.runners.learning_settings import LearningSettings
from ace.runners.run_options import RunSettings
from ace.steps.tail_settings import TailSettings
from ace_server.settings import IN_PROJECTS, ServerSettings

SOURCE = Path(ace.__file__).parent
PAGE = Path(__file__).parent / "reference" / "options.md"
WIDTH = 120


@dataclass(frozen=True)
class Keywords:
    """A typed dictionary of the keywords that a settings class declares."""

    name: str
    about: str
    settings: type
    base: str = "TypedDict"
    names: Sequence[str] | None = None
    """The names of the keywords; by default all that the base does not have."""

    def options(self) -> Iterator[Option]:
        """Yield the options that become keywords of this class."""
        own = inspect.get_annotations(self.settings) if self.names is None else self.names
        return (option for option in options_of(self.settings) if option.name in own)

    def source(self) -> str:
        """Return the source of the class."""
        lines = [f"class {self.name}({self.base}, total=False):", f'    """{self.about}"""', ""]
        for option in self.options():
            text = " ".join(filter(None, (option.help, option.details)))
            lines += [f"    {option.name}: {option.keyword_type}", *_docstring(text)]
        return "\n".join(lines)


def _docstring(text: str) -> list[str]:
    wrapped = textwrap.wrap(f'"""{text}"""', WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    return [f"    {line}" for line in wrapped]


_OF_LEARNING = [name for name in inspect.get_annotations(LearningSettings) if name != "skillbook"]

MODULES = {
    "steps/tail_keywords.py": [
        Keywords("TailOptions", "The keywords of `learning_tail` and of its steps; see `TailSettings`.", TailSettings)
    ],
    "runners/learning_keywords.py": [
        Keywords(
            "StepOptions",
            "The keywords of `build_steps` that all runners share; see `LearningSettings`.",
            *(LearningSettings, "TailOptions", _OF_LEARNING),
        ),
        Keywords(
            "LearningOptions",
            "The keywords of `from_roles` that all runners share; see `LearningSettings`.",
            *(LearningSettings, "StepOptions", ["skillbook"]),
        ),
    ],
    "runners/run_keywords.py": [Keywords("RunOptions", "The keywords of `run` that all runners share.", RunSettings)],
}


_OWN = {"__all__", "annotations", "TYPE_CHECKING"}
"""What the generated modules import or define themselves."""


def module(path: str) -> str:
    """Return the source of a module with keywords.

    Args:
        path: The path of the module, relative to the package.
    """
    classes = MODULES[path]
    settings = classes[0].settings
    source = ast.parse(Path(sys.modules[settings.__module__].__file__ or "").read_text(encoding="utf-8"))
    homes = {name: settings.__module__ for node in source.body if isinstance(node, ast.Assign) for name in _names(node)}
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and node.module:
            homes = {imported.name: node.module for imported in node.names} | homes
    parts = [
        '"""Written from the declarations of the options by `python -m docs.generated_options`; do not edit it."""',
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING, TypedDict",
        "" if classes[0].base == "TypedDict" else "from ace.steps.tail_keywords import TailOptions",
        "if TYPE_CHECKING:",
        *(f"    from {home} import {name}" for name, home in homes.items() if name not in _OWN),
        f"__all__ = {[kind.name for kind in classes]}",
        *(kind.source() for kind in classes),
    ]
    return _formatted("\n".join(parts), path)


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _formatted(source: str, path: str) -> str:
    """Return a module as the linter wants it, without the imports that it does not use."""
    for command in (["check", "--quiet", "--fix", "--select", "F401,I,RUF022"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(SOURCE / path), "-"]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout
    return source


INTRODUCTION = """\
# Options

Every option of learning and of a run, as a keyword of the runners, a setting and an option of the command line. A
setting may be in `ace.toml`, in your own settings file, in the variable `ACE_` and its name in capitals, or in `--set
NAME=VALUE`; see [Command line](command-line.md). This page is generated from the declarations.
"""
HEADINGS = {
    TailSettings: "Of the learning steps",
    LearningSettings: "Of every learning runner",
    RunSettings: "Of every run",
    Settings: "Of the command line only",
}


def page() -> str:
    """Return the text of the reference page."""
    parts = [INTRODUCTION]
    for settings, heading in HEADINGS.items():
        own = inspect.get_annotations(settings)
        parts.append(f"## {heading}\n")
        parts += [*(_entry(option) for option in options_of(settings) if option.name in own), ""]
    parts += [TRUST, *(f"| {' | '.join(row)} |" for row in trust_rows()), ""]
    return "\n".join(parts)


TRUST = """\
## Who may set what

The `ace.toml` of a project may come from a stranger, for example in a repository that you have just cloned. It can
choose neither where your texts and keys go, nor which of your files are changed, nor can it turn off a safeguard. Your
own settings file, the variables, a file that you name with `--config`, and options may set everything, except keys,
which are not an option because other users can see the list of processes. The settings of the service are in the table
`[server]`, their variables begin with `ACE_SERVER_`, and its keys and secrets are only in variables.

| setting | `ace.toml` of a project | own settings file | option |
|---|---|---|---|"""


def trust_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of the table that says who may set what."""
    for option in SETTINGS.values():
        project = "anything" if option.project is None else option.project.allowed
        flag = f"`{option.flag}`" if option.commands else "no"
        yield f"`{option.name}`", project, "yes", flag
    flags = {"data", "host", "port", "behind_proxy"}
    for name in (setting.name for setting in fields(ServerSettings)):
        flag = f"`--{name.replace('_', '-')}`" if name in flags else "no"
        yield f"`[server] {name}`", "anything" if name in IN_PROJECTS else "nothing", "yes", flag


def _entry(option: Option) -> str:
    """Return what the page says about an option."""
    where = "Python only" if option.python_only else f"setting `{option.variable}`"
    commands = f", `{option.flag}` of {' and '.join(option.commands)}" if option.commands else ""
    trust = "" if option.project is None else f"; in the `ace.toml` of a project: {option.project.allowed}"
    bounds = f" ({option.accepts})" if option.accepts else ""
    text = " ".join(filter(None, (option.help, option.details)))
    return f"- `{option.name}: {option.keyword_type}`{bounds}: {text} *{where}{commands}{trust}.*"


if __name__ == "__main__":
    for name in MODULES:
        (SOURCE / name).write_text(module(name), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
