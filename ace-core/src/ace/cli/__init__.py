"""The command line `ace`.

`main` is the script; each command is one module of `ace.cli.commands`, loaded when it is used.
"""

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
    try:
        from ace.cli.app import run
    except KeyboardInterrupt:  # so early that nothing else can catch it
        return 130
    return run(sys.argv[1:] if arguments is None else arguments)
