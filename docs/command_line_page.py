"""Writes `reference/command-line.md` from the help texts of the commands: `python -m docs.command_line_page`."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ace.cli.app import build_app
from ace.cli.command_table import ace_commands

PAGE = Path(__file__).parent / "reference" / "command-line.md"

INTRODUCTION = """\
# Command line

`ace --help` lists the commands, `ace COMMAND --help` describes one of them. This page is generated from the same texts.

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
`api_base` unsets it: `--api-base ""` ignores the address in the files.

`ace.toml` is searched for in the current folder and, inside a git repository, in its parents. For security, it cannot
contain a key; its `api_base` must be on this machine, its `skillbook` must be a file, and its `model` must be a hosted
provider with a name or one of `ace models list`. Otherwise, a cloned project could have your key or your traces sent
elsewhere. A relative `skillbook` path in a file is relative to the folder of that file.

`SOURCE_DATE_EPOCH` sets the timestamp of all changes.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([INTRODUCTION, *(section(row.name) for row in ace_commands())])


def section(name: str) -> str:
    """Return what the page says about one command."""
    command = build_app([name])[name]
    with _running_as("ace"):
        text = command.generate_docs(heading_level=2, usage_name=f"ace {name}")
    # The subcommands follow in a list of their own, with a sentence on each.
    text = re.sub(r"#+ Table of Contents\n\n(?:[ -].*\n)+\n", "", text)
    text = re.sub(r"^(ace (.+)) \2 ", r"\1 ", text, flags=re.MULTILINE)  # in a usage that was written by hand
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join([f"## ace {name}", *lines[1:], ""])


@contextmanager
def _running_as(program: str) -> Iterator[None]:
    """Replace the name of this program, with which cyclopts begins the usage lines of nested commands.

    It then replaces the first word of these lines, so they would keep the rest of `python -m pytest`.
    """
    arguments, sys.argv = sys.argv, [program]
    try:
        yield
    finally:
        sys.argv = arguments


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
