"""Runs the real `ace` command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACE = Path(sys.executable).with_name("ace")


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """The object that `--json` printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Run = Callable[..., Done]
"""How the fixture `here` runs a command: its arguments are those of `ace`, with `folder` left out if it likes."""


def command_environment(home: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment without keys and settings, whose home folder is empty.

    What runs that no one judged teach is shown to agents, because hardly any test is about evidence; those that are set
    ACE_UNPROVEN to its default.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_TOKEN")) and not name.startswith("ACE_")
    }
    config = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "SOURCE_DATE_EPOCH": "1767225600"}
    return {**kept, **config, "ACE_UNPROVEN": "keep", **(environ or {})}


def ace(
    *arguments: str | Path,
    folder: Path,
    environ: Mapping[str, str] | None = None,
    stdin: str | bytes = b"",
) -> Done:
    """Run `ace` in a folder, which is its home folder too, and return what it printed."""
    done = subprocess.run(
        [ACE, *map(str, arguments)],
        cwd=folder,
        env=command_environment(folder, environ),
        input=stdin.encode("utf-8") if isinstance(stdin, str) else stdin,
        capture_output=True,
        check=False,
    )
    result = Done(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
    assert "Traceback" not in result.err, result.err
    return result
