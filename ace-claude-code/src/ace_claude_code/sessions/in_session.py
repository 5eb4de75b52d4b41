"""The program of the plugin's slash command: `ace claude-code` with the arguments that the user typed.

They come on standard input, where no shell reads them: a lesson may contain quotes, `$` and backticks.

Errors are for the user, so they are printed to standard output, which Claude Code shows.
"""

from __future__ import annotations

import shlex
import sys

__all__ = ["LAST_LINE", "arguments_in", "main"]

LAST_LINE = "(end)"
"""The line after the text. It is missing if Claude Code took a part of the text for the end of the command."""


def arguments_in(text: str) -> list[str]:
    """Return the arguments in what the user typed: `show` if it is nothing.

    The text of `edit ID TEXT` is taken as it is, unless it is in quotes as a whole.

    Args:
        text: What the user typed.

    Example:
        >>> arguments_in("edit x-1 Don't use `make clean`.")
        ['edit', 'x-1', "Don't use `make clean`."]
        >>> arguments_in("export 'my notes.md'")
        ['export', 'my notes.md']
    """
    parts = text.split(maxsplit=2)
    if parts[:1] == ["edit"] and len(parts) > 2:
        words = _words(parts[2])
        is_quoted = len(words) == 1 and parts[2][0] in "'\""
        return [*parts[:2], words[0] if is_quoted else parts[2].rstrip()]
    return _words(text) or ["show"]


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a single quote, as in "don't"
        return text.split()


def main(text: str) -> int:
    """Run a subcommand.

    Args:
        text: What the user typed after the slash command, and `LAST_LINE`.

    Returns:
        0, because with any other exit code, Claude Code stops and does not show the output.
    """
    from ace.cli import main as ace
    from ace.integrations import print_text

    sys.stderr = sys.stdout
    typed, last_line, _ = text.rpartition(f"\n{LAST_LINE}\n")
    if last_line:
        ace(["claude-code", *arguments_in(typed)])
    else:
        print_text("A text with ``` cannot be typed in a session; run `ace claude-code edit` in a terminal.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.stdin.read()))
