"""`--help` has one look for all commands, is short, and is shown without loading the command or the parser."""

import json
from pathlib import Path

import pytest

from ace.cli.help import HELP_FILE, HelpPage
from ace.plugins import CommandSpec
from ace.plugins.catalogue import catalogue
from tests.support.command_line import ace
from tests.support.loaded_modules import modules_of_command, top_level

ROOT = Path(__file__).parents[3]
FILES = [*sorted(ROOT.glob(f"ace-*/src/*/{HELP_FILE}")), ROOT / "ace-core/src/ace/cli" / HELP_FILE]
PAGES = {name: page for file in FILES for name, page in json.loads(file.read_text(encoding="utf-8")).items()}


@pytest.mark.parametrize("command", ["learn", "train"])
def test_the_help_of_a_command_that_learns_shows_examples_and_at_most_20_options(tmp_path: Path, command: str) -> None:
    shown = ace(command, "--help", folder=tmp_path).out
    options = [line.split()[0] for line in shown.splitlines() if line.startswith("  --")]
    assert 10 < len(options) + len(["--help", "--help-all"]) <= 20
    titles = [line.rstrip(":") for line in shown.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[0] == "Examples" and {"Arguments", "Files", "Model", "Run", "Settings"} <= set(titles)
    assert f"`ace {command} --help-all` shows all" in shown


@pytest.mark.parametrize("command", ["learn", "train"])
def test_everything_else_is_in_help_all(tmp_path: Path, command: str) -> None:
    options = [row["names"] for rows in PAGES[command]["options"].values() for row in rows]
    shown = ace(command, "--help-all", folder=tmp_path).out
    assert len(options) > 40
    assert [names for names in options if f"  {names}" not in shown] == []
    assert {"--reflections-per-call INT", "--max-adds INT", "--prove, --no-prove"} <= set(options)


def test_every_page_is_plain_text_that_fits_into_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = []
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        for name, page in PAGES.items():
            text = HelpPage.from_json(page).text(everything=True)
            wide = [line for line in text.splitlines() if len(line) > columns and " " in line.strip()]
            if wide or "\x1b" in text or set(text) & set("╭│╰─┏┃"):
                faults.append((name, columns, wide[:1]))
    assert len(PAGES) > 50 and faults == []


def test_every_command_of_our_distributions_has_a_page() -> None:
    own = {"beads", "claude-code", "mcp", "openclaw", "otel", "server", "view"}
    installed = {plugin.name.replace("_", "-") for plugin in catalogue().providing(CommandSpec)} & own
    assert installed <= PAGES.keys()


@pytest.mark.parametrize(
    "arguments", [("learn",), ("train",), ("eval",), ("skillbook",), ("skillbook", "show"), ("get",)]
)
def test_help_loads_neither_the_parser_nor_the_command(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    printed, loaded = modules_of_command(tmp_path, *arguments, "--help")
    assert printed.startswith(f"Usage: ace {' '.join(arguments)} ")
    assert sorted({"attrs", "cyclopts", "rich", "pydantic", "asyncio"} & set(map(top_level, loaded))) == []
    assert not {module for module in loaded if module.startswith(("ace.cli.commands", "ace.runners", "ace.skillbook"))}


@pytest.mark.parametrize("arguments", [("mcp",), ("server", "run"), ("claude-code",), ("openclaw",), ("beads",)])
def test_the_help_of_a_plugin_loads_neither_the_parser_nor_the_plugin(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    printed, loaded = modules_of_command(tmp_path, *arguments, "--help", site=True)
    if "unknown" in printed or not printed:
        pytest.skip(f"the plugin {arguments[0]} is not installed")
    assert printed.startswith(f"Usage: ace {' '.join(arguments)} ")
    package = f"ace_{arguments[0].replace('-', '_')}"
    assert sorted({"cyclopts", "rich", "pydantic", package} & set(map(top_level, loaded))) == []


def test_help_after_two_hyphens_is_not_asked_for(tmp_path: Path) -> None:
    done = ace("learn", "--", "--help", folder=tmp_path)
    assert done.code == 2 and "Usage" not in done.out
