"""What the slash command of the plugin calls: `ace claude-code` with the arguments that the user typed.

    python -m ace_claude_code.sessions.in_session show

Whatever goes wrong, the sentence is for the user, so it is printed where Claude Code shows it.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run a subcommand, `show` without arguments.

    Args:
        arguments: What the user typed after the slash command.

    Returns:
        0: Claude Code stops at any other exit code, and shows nothing of what was printed.
    """
    from ace.cli import main as ace

    sys.stderr = sys.stdout
    ace(["claude-code", *(arguments or ["show"])])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
