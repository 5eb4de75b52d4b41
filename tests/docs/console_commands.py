"""Finds and runs the commands of a page: the lines of its ``console`` blocks that begin with a dollar sign."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.command_line import ACE, Done, Run, command_environment

BLOCK = re.compile(r"^```console\n(?P<body>(?:.*\n)*?)```$", re.MULTILINE)
FOR_A_SHELL = re.compile(r"[|&;<>$*`\\]")


def commands_in(text: str) -> list[list[str]]:
    """All commands of a page, each as a list of its words, in order."""
    lines = [line for block in BLOCK.finditer(text) for line in block["body"].splitlines()]
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]


def run_line(line: str, here: Run, folder: Path, environ: Mapping[str, str]) -> Done:
    """Run a line as a shell does: `ace` alone in this process, and what has more in it in a shell."""
    environ = {"ACE_UNPROVEN": "pending", **environ}  # as it is for readers
    name, *arguments = shlex.split(line, comments=True)
    if name == "ace" and not FOR_A_SHELL.search(line):
        return here(*arguments, folder=folder, environ=environ)
    variables = command_environment(folder, environ)
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**variables, "PATH": f"{ACE.parent}:{variables['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Done(done.returncode, done.stdout, done.stderr)
