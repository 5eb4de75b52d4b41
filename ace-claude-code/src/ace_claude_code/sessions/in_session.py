"""The program of the plugin's slash command: `ace claude-code` with the arguments that the user typed.

    python -m ace_claude_code.sessions.in_session show

Errors are for the user, so they are printed to standard output, which Claude Code shows.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run a subcommand, `show` without arguments.

    Args:
        arguments: What the user typed after the slash command.

    Returns:
        0, because with any other exit code, Claude Code stops and does not show the output.
    """
    from ace.cli import main as ace

    sys.stderr = sys.stdout
    ace(["claude-code", *(arguments or ["show"])])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
