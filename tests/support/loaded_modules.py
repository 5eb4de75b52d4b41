"""The modules that a command has loaded when it ends, in an interpreter of its own."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import ace

_PROGRAM = """
import json, sys
arguments, *folders = sys.argv[1:]
sys.path += folders
from ace.cli import main
main(json.loads(arguments))
print(json.dumps(sorted(sys.modules)))
"""


def modules_of_command(folder: Path, *arguments: str, site: bool = False) -> tuple[str, set[str]]:
    """What a command prints, and the modules that it has loaded in the end.

    The interpreter is isolated, since what is installed in site-packages may load modules by itself. With ``site`` it
    is not, so that it finds the plugins of editable installations too.
    """
    folders = [str(Path(ace.__file__).parents[1]), sysconfig.get_path("purelib")]
    options = [] if site else ["-I", "-S"]
    command = [sys.executable, *options, "-c", _PROGRAM, json.dumps(arguments), *folders]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder)
    printed, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    return printed, set(json.loads(modules))


def top_level(module: str) -> str:
    """The package that a module belongs to."""
    return module.partition(".")[0]
