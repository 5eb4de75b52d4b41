"""Grade C for corrections: what an agent must do so that a person need not say it again, if code can check it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ace.logs import Run
from ace_sleep.edits import edits_of
from ace_sleep.mining import arguments_of, calls_of, command_of, shell_calls
from ace_sleep.shell import harm_of, is_looking, shown_command

__all__ = ["Wish", "wish_in"]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a correction asked for, and the agent then did."""

    commands: tuple[str, ...]
    """The commands that the person named, and that worked afterwards."""
    files: tuple[str, ...]
    """The files that the person named, and that were changed afterwards, relative to the repository."""
    rejected_commands: tuple[str, ...]
    """The commands that the person rejected with it."""
    rejected_files: tuple[str, ...]
    """The files whose change the person rejected with it."""

    def __bool__(self) -> bool:
        # What is only to be left undone cannot be checked: an agent that does nothing at all would succeed.
        return bool(self.commands or self.files)

    def __str__(self) -> str:
        parts = [
            *(f"it runs `{command}`, which works" for command in self.commands),
            *(f"it changes `{file}`" for file in self.files),
            *(f"it does not run `{command}`" for command in self.rejected_commands),
            *(f"it does not change `{file}`" for file in self.rejected_files),
        ]
        return "; ".join(parts)

    def harm(self, root: str) -> str:
        """Return which of the commands is never run again; empty if none is.

        Args:
            root: The folder of the repository.
        """
        return next((f"`{command}`" for command in self.commands if harm_of(command, root)), "")


def wish_in(run: Run, said: str, root: str) -> Wish:
    """Return what a person asked for in a session, as far as the agent did it afterwards.

    Args:
        run: The session.
        said: The words of the person.
        root: The folder of the repository.
    """
    begin = _place_of(run, said)
    if begin is None:
        return Wish((), (), (), ())
    later = [call for call in shell_calls(run.steps) if call.at > begin and not call.failed]
    commands = [shown_command(call.command, root) for call in later if not is_looking(call.command)]
    files, rejected_commands, rejected_files = [], [], []
    for at, step, result in calls_of(run.steps):
        arguments = arguments_of(step.content)
        edited = list(_inside((edit.path for edit in edits_of(arguments)), run, root))
        if result.is_rejected and said in _reason(run, at):
            rejected_files += edited
            rejected_commands += [] if edited else [shown_command(command_of(arguments), root)]
        elif at > begin and not result.is_error:
            files += [path for path in edited if _names(said, path) or _names(said, os.path.basename(path))]
    return Wish(
        commands=tuple(dict.fromkeys(command for command in commands if _names(said, command))),
        files=tuple(dict.fromkeys(files)),
        rejected_commands=tuple(filter(None, dict.fromkeys(rejected_commands))),
        rejected_files=tuple(dict.fromkeys(rejected_files)),
    )


def _place_of(run: Run, said: str) -> int | None:
    """Return the position of the step with some words of a person."""
    spoken = (at for at, step in enumerate(run.steps) if step.kind == "message" and step.speaker == "person")
    return next((at for at in spoken if said in run.steps[at].content), None)


def _reason(run: Run, at: int) -> str:
    """Return what a person said next after a call."""
    for step in run.steps[at + 1 :]:
        if step.kind == "message" and step.speaker == "person":
            return step.content
        if step.kind == "call":
            break
    return ""


def _inside(paths: Iterator[str], run: Run, root: str) -> Iterator[str]:
    for path in paths:
        relative = os.path.relpath(os.path.realpath(os.path.join(run.cwd, path)), root)
        if relative.split(os.sep)[0] != "..":
            yield relative


def _names(said: str, name: str) -> bool:
    """Whether a text names a command or a file, and not only a longer word that has it in it."""
    return bool(name) and re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", said) is not None
