"""The command line `ace`.

`main` is the script; each command is one module of `ace.cli.commands`, loaded when it is used.
"""

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


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
    from ace.cli.signals import EXIT_CODE, run_heeding_signals

    def command() -> int:
        try:
            from ace.cli.app import run

            return run(sys.argv[1:] if arguments is None else arguments)
        except KeyboardInterrupt:  # so early that nothing else has said so
            os.write(2, b"ace: interrupted\n")
            return EXIT_CODE

    return run_heeding_signals(command)
