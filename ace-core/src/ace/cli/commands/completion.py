"""`ace completion`: the completion script for a shell."""

from __future__ import annotations

from typing import Literal

from ace.cli.console import print_text

__all__ = ["command"]


def command(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print the completion script for a shell.

    For zsh, save it as `_ace` in a folder of `fpath`.

    For example:

        ace completion bash > ~/.local/share/bash-completion/completions/ace
        ace completion fish > ~/.config/fish/completions/ace.fish

    Args:
        shell: The shell that will load the script.
    """
    from ace.cli.app import build_app

    print_text(build_app().generate_completion(prog_name="ace", shell=shell))
    return 0
