"""The command line `ace`.

`main` is the script; each command is one module of `ace.cli.commands`, loaded when it is used.
"""

import atexit
import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.cli.options import ModelOptions
    from ace.cli.plugin_commands import CommandContext
    from ace.cli.settings import Settings

__all__ = ["CommandContext", "ModelOptions", "Settings", "main"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"CommandContext": "plugin_commands", "ModelOptions": "options", "Settings": "settings"}
)

_NEW_OBJECTS = 50_000
"""The number of new objects after which the garbage collector runs, in a process that only runs a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of the command line.

    Args:
        arguments: What follows `ace`; by default the arguments of this process.

    Returns:
        The exit code: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted.

    Example:
        >>> main(["--version"]) == 0
        ace ...
        True
    """
    try:
        from ace.cli.console import open_missing_streams
        from ace.cli.signals import run_heeding_signals
    except KeyboardInterrupt:
        sys.stderr.write("ace: interrupted\n")
        return 130

    if arguments is None:
        open_missing_streams()

    def command() -> int:
        from ace.cli.start import run

        return run(sys.argv[1:] if arguments is None else arguments)

    if arguments is None:
        _spare_the_collector()
    return run_heeding_signals(command)


def _spare_the_collector() -> None:
    """Run the garbage collector less often, in a process that only runs a command.

    A command that asks a model imports a million objects, all of which stay. Looking through them time and
    again, and once more at the exit, takes a third of the time of a short command.
    """
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
