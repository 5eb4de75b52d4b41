"""Finds in sessions what may be a lesson, without a model: commands that failed, and what worked afterwards."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ace.logs import Run, Step
from ace_sleep.edits import Edit, edits_of
from ace_sleep.shell import is_looking, programs, purposes, shown_command

__all__ = [
    "CommandPair",
    "Grade",
    "ShellCall",
    "arguments_of",
    "calls_of",
    "command_of",
    "error_line",
    "is_same_line",
    "mine",
    "shell_calls",
]

Grade = Literal["A", "B"]
"""How a lesson is proven: A by two commands in the same state, B by one command before and after an edit."""

_COMMANDS: Final = ("command", "cmd", "script")
_FOLDERS: Final = ("workdir", "cwd", "dir_path", "directory", "working_directory", "working_dir")
_FARTHEST: Final = 20
"""How many commands later one still belongs to the failure."""
_PROVEN_PURPOSES: Final = frozenset({"test", "lint", "types", "build", "format", "docs"})

_EXCEPTION: Final = re.compile(r"\b(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Failure)\b: .+")
_EXPECTATION: Final = re.compile(
    r"(?:^|[/._-])(?:tests?|specs?|expected|golden|snap|snapshots?|__snapshots__|fixtures?|baselines?)(?=$|[/._-])",
    re.IGNORECASE,
)
"""In a path: the file is a test, or what a test compares with."""
_EDGE: Final = re.compile(r"^(?:[>E|]\s+|\s|\x1b\[[\d;]*m)+|\s+$|\x1b\[[\d;]*m")
_ENVELOPE: Final = re.compile(
    r"(?:exit code|process exited with code|exited with code|wall time|original token count|process group pgid)"
    r"[:\s]+[\d.]+(?: seconds)?|chunk id: \w+|output:|(?:directory|command): .*|[\w ]+: \(none\)|</?[a-z_]+>",
    re.IGNORECASE,
)
"""What agents write around the output of a command."""
_ENDED: Final = re.compile(r"(?:\S*make\S*: \*\*\* .*\bError \d+$|npm (?:ERR!|error)\b)", re.IGNORECASE)
"""A runner says that a command failed, not why."""
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class ShellCall:
    """A command that an agent ran."""

    command: str
    folder: str
    """The folder it ran in: absolute, or relative to that of the session; empty for that of the session."""
    output: str
    failed: bool
    at: int
    """The position of the call among the steps."""

    def shown(self, run: Run, root: str) -> str:
        """Return the command as a lesson shows it: as it is typed in the folder of the repository.

        Args:
            run: The session.
            root: The folder of the repository, without links.
        """
        folder = os.path.realpath(os.path.join(run.cwd, self.folder.removeprefix("file://")))
        relative = os.path.relpath(folder, root)
        shown = shown_command(self.command, root)
        return shown if relative == "." else f"cd {shlex.quote(relative)} && {shown}"


@dataclass(frozen=True, slots=True)
class CommandPair:
    """A command that failed, and what worked later for the same purpose."""

    grade: Grade
    failed: ShellCall
    worked: ShellCall
    before: tuple[Edit, ...]
    """The edits of the session before the failure."""
    steps: tuple[Edit | ShellCall, ...]
    """For B, the edits and commands between the two, in order; empty for A."""
    said: str
    """What a person said between the two; empty if no one said anything."""

    @property
    def between(self) -> tuple[Edit, ...]:
        """The edits between the two commands."""
        return tuple(step for step in self.steps if isinstance(step, Edit))

    @property
    def commands(self) -> tuple[ShellCall, ...]:
        """The commands between the two that did something and worked."""
        return tuple(step for step in self.steps if isinstance(step, ShellCall))

    @property
    def steps_lost(self) -> int:
        """How many steps the agent needed to get from one command to the other."""
        return self.worked.at - self.failed.at

    def key(self, root: str) -> str:
        """Return what pairs with the same lesson have in common.

        Args:
            root: The folder of the repository.
        """
        failed, worked = shown_command(self.failed.command, root), shown_command(self.worked.command, root)
        if self.grade == "B":
            files = sorted({os.path.basename(edit.path) for edit in self.between})
            if self.commands:  # they say more than the error, which may name what the session was about
                return "\n".join(("B", worked, *files, *(shown_command(call.command, root) for call in self.commands)))
            return "\n".join(("B", worked, _VARYING.sub("0", error_line(self.failed.output)), *files))
        first, second = shlex.split(failed), shlex.split(worked)
        if _program(failed) != _program(worked):
            return "\n".join(("A", _program(failed), worked))
        added = [word for word in second if word not in first]
        dropped = [word for word in first if word not in second]
        return "\n".join(("A", _program(failed), *added, "-", *dropped))


def mine(run: Run) -> list[CommandPair]:
    """Return the pairs of commands in a session, in order.

    A command that failed may have several pairs, of which running them shows the right one.

    Args:
        run: The session.
    """
    calls = list(shell_calls(run.steps))
    edits = list(_edits(run.steps))
    found: list[CommandPair] = []
    done: set[str] = set()
    for number, call in enumerate(calls):
        if not call.failed or call.command in done or is_looking(call.command):
            continue
        pairs = list(_repairs(call, calls[number + 1 : number + 1 + _FARTHEST], edits, run))
        if pairs:
            done.add(call.command)
            found += pairs
    return found


def _repairs(
    call: ShellCall, later: Sequence[ShellCall], edits: Sequence[tuple[int, Edit]], run: Run
) -> Iterator[CommandPair]:
    """Yield what may have repaired a failure.

    If the same command worked later, that is what was done in between; otherwise it is another command that worked.
    """
    worked = [other for other in later if not other.failed and not is_looking(other.command)]
    before = tuple(edit for at, edit in edits if at < call.at)
    again = next((other for other in worked if _squeezed(other.command) == _squeezed(call.command)), None)
    if again is not None:
        done: list[tuple[int, Edit | ShellCall]] = [(at, edit) for at, edit in edits if call.at < at < again.at]
        changed = [_relative(step.path, run.cwd) for _, step in done if isinstance(step, Edit)]
        done += [(other.at, other) for other in worked if other.at < again.at]
        steps = tuple(step for _, step in sorted(done, key=lambda pair: pair[0]))
        if steps and _may_repair(call.command, changed):
            yield CommandPair("B", call, again, before, steps, _said(run.steps[call.at : again.at]))
        return
    variants: dict[str, CommandPair] = {}
    for other in worked:
        said = _said(run.steps[call.at : other.at])
        if _is_for_the_same(call, other, said):
            variants.setdefault(_squeezed(other.command), CommandPair("A", call, other, before, (), said))
    yield from variants.values()


def _relative(path: str, folder: str) -> str:
    return os.path.relpath(os.path.join(folder, path), folder or os.curdir)


def _may_repair(command: str, paths: Sequence[str]) -> bool:
    """Whether edits that made a check pass can be a repair; a test also passes once it expects something else."""
    found = purposes(command)
    if "test" in found and paths and all(_EXPECTATION.search(path) for path in paths):
        return False
    return bool(found & _PROVEN_PURPOSES)


def _is_for_the_same(call: ShellCall, other: ShellCall, said: str) -> bool:
    """Whether a later command may be for the same purpose as one that failed; running both shows whether it is."""
    if purposes(call.command) & purposes(other.command):
        return True
    first, second = _program_words(call.command), _program_words(other.command)
    if first & second:
        return True
    # The error message or a person named the command that worked.
    named = shown_command(other.command, "")
    return len(named) > 3 and named in f"{call.output}\n{said}"


def _program(command: str) -> str:
    try:
        found = [words for words in programs(command) if words[0] != "cd"]
    except ValueError:
        return command
    return found[-1][0] if found else command


def _program_words(command: str) -> set[str]:
    """Return the programs of a command, and the files and targets that it names."""
    try:
        found = [word for words in programs(command) for word in words if words[0] != "cd"]
    except ValueError:
        return set()
    return {os.path.splitext(os.path.basename(word))[0] for word in found if len(word) > 2 and not word.startswith("-")}


def _said(steps: Sequence[Step]) -> str:
    texts = [step.content for step in steps if step.kind == "message" and step.speaker == "person"]
    return texts[-1] if texts else ""


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def shell_calls(steps: Sequence[Step]) -> Iterator[ShellCall]:
    """Yield the commands that an agent ran, in order. A rejected one was not run.

    Args:
        steps: The steps of a session.
    """
    for at, step, result in calls_of(steps):
        arguments = arguments_of(step.content)
        command = command_of(arguments)
        if command and not result.is_rejected and not edits_of(arguments):
            folder = "" if isinstance(arguments, str) else _first_text(arguments, _FOLDERS)
            yield ShellCall(command, folder, result.content, result.is_error, at)


def _edits(steps: Sequence[Step]) -> Iterator[tuple[int, Edit]]:
    for at, step, result in calls_of(steps):
        if not result.is_error:
            for edit in edits_of(arguments_of(step.content)):
                yield at, edit


def calls_of(steps: Sequence[Step]) -> Iterator[tuple[int, Step, Step]]:
    """Yield the calls of tools with their positions and results, in order.

    Args:
        steps: The steps of a session.
    """
    results = [step for step in steps if step.kind == "result"]
    by_id = {step.call_id: step for step in results if step.call_id}
    unnamed = iter([step for step in results if not step.call_id])
    for at, step in enumerate(steps):
        if step.kind == "call":
            result = by_id.get(step.call_id) if step.call_id else next(unnamed, None)
            if result is not None:
                yield at, step, result


def arguments_of(content: str) -> Mapping[str, Any] | str:
    """Return the arguments of a call; the text itself if it is not a JSON object.

    Args:
        content: The content of the step.
    """
    try:
        found = json.loads(content)
    except ValueError:
        return content
    return found if isinstance(found, dict) else content


def command_of(arguments: Mapping[str, Any] | str) -> str:
    """Return the command that a call passes to a shell; empty for another call.

    Args:
        arguments: The arguments of the call.
    """
    if isinstance(arguments, str):
        return ""
    if isinstance(arguments.get("action"), Mapping):  # of the shell that the model has built in
        return command_of(arguments["action"])
    found = next((arguments[name] for name in _COMMANDS if arguments.get(name)), "")
    if isinstance(found, str):
        return found
    words = [word for word in found if isinstance(word, str)] if isinstance(found, list) else []
    if len(words) == 3 and os.path.basename(words[0]) in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)


def _first_text(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def error_line(output: str) -> str:
    """Return the line of an output that describes the failure best, without marks and colours; empty for no output.

    Args:
        output: What a command printed.

    Example:
        >>> error_line("E   RuntimeError: SRC_ROOT is not set\\n1 error in 0.05s")
        'RuntimeError: SRC_ROOT is not set'
    """
    lines = [line for line in (_EDGE.sub("", line) for line in output.splitlines()) if line]
    lines = [line.removeprefix("Output: ") for line in lines if not _ENVELOPE.fullmatch(line)]
    exceptions = [found[0] for line in lines if (found := _EXCEPTION.search(line))]
    whole = [line for line in exceptions if not line.endswith("...")]
    other = [line for line in lines if not _ENDED.match(line)]
    best = whole or exceptions or other or lines
    return best[-1][:300] if best else ""


def is_same_line(line: str, output: str) -> bool:
    """Return whether an output has a line, numbers aside.

    Args:
        line: What `error_line` returned. One that was cut off matches its beginning.
        output: What a command printed.
    """
    wanted = _VARYING.sub("0", _squeezed(line.removesuffix("...")))
    return not wanted or any(wanted in _VARYING.sub("0", _squeezed(found)) for found in output.splitlines())
