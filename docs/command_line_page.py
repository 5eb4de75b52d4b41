"""Writes `reference/command-line.md` and the help files of the commands: `python -m docs.command_line_page`."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from cyclopts import App

from ace.cli.app import build_app
from ace.cli.command_table import ace_commands
from ace.cli.help import HELP_FILE, HelpPage, HelpRow, page_of
from ace.plugins import CommandSpec
from ace.plugins.catalogue import catalogue

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).parent / "reference" / "command-line.md"

INTRODUCTION = """\
# Command line

`ace --help` lists the commands, `ace COMMAND --help` describes one of them. `ace learn --help` and `ace train --help`
show what most people need, `--help-all` shows all options. This page is generated from the same texts.

Results are written to standard output, everything else (progress, warnings, errors) to standard error. With `--json`,
the result is one JSON object whose `schema` is 1; the number increases when a field is removed or changes its meaning,
not when one is added.

Exit codes: 0 success; 1 some inputs failed or were not processed; 2 usage error, nothing was started;
130 interrupted.

The first line printed by a command that uses a model states the amount of work, the model and where it runs. It is
followed by the progress, with an estimate of the remaining time. With `--json`, both are omitted.

## Settings

Later sources override earlier ones: defaults, your own file (`$XDG_CONFIG_HOME/ace/config.toml`, usually
`~/.config/ace/config.toml`), the `ace.toml` of the project, variables named `ACE_...`, options. The files hold
`name = value` lines in TOML; `ace config` lists the names, the values and where each comes from. An empty
`api_base` unsets it: `--api-base ""` ignores the address in the files. `ace learn` and `ace train` also take any
setting that they use as `--set NAME=VALUE`, with the names of the files. [Options](options.md) describes all settings.

`ace.toml` is searched for in the current folder and, inside a git repository, in its parents. For security, it cannot
contain a key; its `api_base` must be on this machine and gets no key, its `skillbook` must be a file inside the
project, and its `model` must be a hosted provider with a name or one of `ace models list`. Otherwise, a cloned project
could have your key or your traces sent elsewhere. It cannot turn off gates, proofs and other safeguards either; see
[who may set what](options.md#who-may-set-what). A relative path in a file is relative to the folder of that file.

`SOURCE_DATE_EPOCH` sets the timestamp of all changes.
"""


def page() -> str:
    """Return the text of the page."""
    parts = [INTRODUCTION]
    for command in ace_commands():
        for level, (called, help_page) in enumerate(pages_of(command.name)):
            parts += _section(called, help_page, "##" if level == 0 else "###")
    return "\n".join(parts)


def help_files() -> dict[Path, str]:
    """Return the contents of the help files of our distributions, by path."""
    found = {Path(build_app.__code__.co_filename).with_name(HELP_FILE): [row.name for row in ace_commands()]}
    for plugin in catalogue().providing(CommandSpec):
        package = find_spec(plugin.installed.module.partition(".")[0])
        assert package is not None and package.origin is not None
        file = Path(package.origin).with_name(HELP_FILE)
        if file.is_relative_to(ROOT):
            found.setdefault(file, []).append(plugin.name.replace("_", "-"))
    return {file: _help_file(names) for file, names in found.items()}


def _help_file(names: list[str]) -> str:
    pages = {called: help_page.as_json() for name in names for called, help_page in pages_of(name)}
    lines = [f"{json.dumps(called)}: {json.dumps(page, ensure_ascii=False)}" for called, page in pages.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"  # one line for each command, so that a change shows which one it is


def pages_of(name: str) -> Iterator[tuple[str, HelpPage]]:
    """Yield what the help says about a command and those below it, with their full names.

    Args:
        name: The command.
    """
    return _pages(build_app([name])[name], (name,))


def _pages(app: App, chain: tuple[str, ...]) -> Iterator[tuple[str, HelpPage]]:
    yield " ".join(chain), page_of(app, chain)
    for below in app:
        if not below.startswith("-"):
            yield from _pages(app[below], (*chain, below))


def _section(called: str, page: HelpPage, heading: str) -> Iterator[str]:
    yield from (f"{heading} ace {called}", "", "```console", page.usage, "```", "", page.summary, "")
    if page.examples:
        yield from ("```console", *page.examples, "```", "")
    for paragraph in page.details:
        yield from (paragraph, "")
    for title, rows in {"Commands": page.commands, "Arguments": page.arguments, **page.options}.items():
        if rows:
            yield from (f"**{title}**", "", *map(_item, rows), "")


def _item(row: HelpRow) -> str:
    return f"- `{row.names}`: {row.text}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    for path, text in help_files().items():
        path.write_text(text, encoding="utf-8")
