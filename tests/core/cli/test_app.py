"""The frame of the command line: help, versions, mistakes."""

import gc
import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest

from ace.cli import main
from tests.support.command_line import ACE, Run, ace, command_environment
from tests.support.subprocesses import run_python


def test_help_lists_the_commands_and_the_exit_codes(here: Run) -> None:
    done = here("--help")
    assert done.code == 0
    assert re.search(r"^  completion +Print the completion script for a shell\.$", done.out, re.MULTILINE)
    assert "2 wrong usage" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert here().out == here("-h").out == done.out


@pytest.mark.parametrize("columns", [40, 47, 60, 80, 100, 200])
@pytest.mark.parametrize("page", [[], ["skillbook"], ["learn"], ["eval"]], ids=" ".join)
def test_a_help_page_fits_into_the_terminal(here: Run, page: list[str], columns: int) -> None:
    done = here(*page, "--help", environ={"COLUMNS": str(columns)})
    assert done.code == 0
    assert [line for line in done.out.splitlines() if len(line) > columns] == []


@pytest.mark.parametrize("columns", ["", "0", "-5", "wide", "²", "9" * 5000])
def test_a_width_that_is_not_a_number_of_columns_is_ignored(here: Run, columns: str) -> None:
    done = here("--help", environ={"COLUMNS": columns})
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: ace COMMAND")


def test_the_version_is_that_of_the_distribution(tmp_path: Path) -> None:
    assert ace("--version", folder=tmp_path).out == f"ace {importlib.metadata.version('ace-core')}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["nonsense"], "nonsense"), (["completion", "tcsh"], "tcsh"), (["completion", "bash", "--odd"], "--odd")],
)
def test_wrong_usage_is_one_line_and_exit_2(here: Run, arguments: list[str], named: str) -> None:
    done = here(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.count("\n") == 1 and done.err.startswith("ace: ") and named in done.err
    assert "--help" in done.err


def test_the_completion_script_is_valid_bash_and_knows_the_commands(here: Run) -> None:
    script = here("completion", "bash").out
    assert "completion" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_reader_who_leaves_is_no_error(tmp_path: Path) -> None:
    line = f"'{ACE}' completion bash | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=tmp_path,
        env=command_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_the_garbage_collector_is_set_for_the_own_process_of_a_command_only() -> None:
    before = gc.get_threshold()
    assert main(["--version"]) == 0
    assert gc.get_threshold() == before
    own = "import gc, sys\nfrom ace.cli import main\nsys.argv[1:] = ['--version']\nmain()\nprint(gc.get_threshold()[0])"
    assert int(run_python(own).stdout.splitlines()[-1]) > before[0]
