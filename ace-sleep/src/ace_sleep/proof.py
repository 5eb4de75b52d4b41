"""Proves by running what a session shows: the commands are run again in copies of the repository at its commit."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from ace.logs import Run, text_of
from ace_sleep.edits import Edit, apply_edit
from ace_sleep.mining import CommandPair, ShellCall, error_line, is_same_line
from ace_sleep.repairs import changes_where_it_failed, contents, marks, read_since, records_reads
from ace_sleep.repository import NoCopyError, Repository, copy_at
from ace_sleep.sandbox import Limits, Outcome, Place, RefusedError, Sandbox, SandboxError
from ace_sleep.shell import harm_of
from ace_sleep.workspace import remove_tree

__all__ = ["Proof", "Prover", "Written", "commit_of", "evidence_lines", "folder_of", "last_line"]

_TIMES: Final = 2
_NOT_FOUND: Final = 127
_MOST_CHANGES: Final = 4
"""How many changes of a line are tried until a command notices one."""

Verdict = Literal["proven", "transient", "obsolete", "flaky", "network", "harmful", "bypass", "not reproducible"]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a command writes anew when it is missing."""

    path: str
    """Relative to the repository."""
    command: ShellCall


@dataclass(frozen=True, slots=True)
class Proof:
    """What running the commands of a pair again showed."""

    verdict: Verdict
    """Only `proven` makes a lesson. `transient`: the command that failed works in the same state; `obsolete`: it works
    in the current commit; `network`: it needs the network, which is off; `bypass`: what worked may only skip what
    failed."""
    detail: str
    """The reason for any other verdict."""
    commit: str = ""
    """The commit of the session."""
    failed: Outcome | None = None
    """What the command that failed did, the last time."""
    worked: Outcome | None = None
    """What the other command did, the last time."""
    sandbox: str = ""
    """The sandbox it ran in."""
    steps: tuple[Edit | ShellCall, ...] = ()
    """For grade B, the edits and commands that were needed."""
    written: tuple[Written, ...] = ()
    """The files that the agent had edited before, and that such a command writes."""


@dataclass(frozen=True, slots=True)
class _State:
    """Where commands are run again."""

    repository: Repository
    run: Run
    """The session."""
    commit: str
    edits: tuple[Edit, ...] = ()
    """What is changed after the commit is checked out."""


@dataclass(frozen=True, slots=True)
class _Ran:
    """A command that was run again."""

    outcome: Outcome
    read: frozenset[str]
    """The files of the repository that it read."""


class Prover:
    """Runs the commands of pairs again.

    Args:
        sandbox: Where they run.
        scratch: A folder for the copies, each of which is removed after a command.
        limits: What a command may use.
    """

    def __init__(self, sandbox: Sandbox, scratch: Path, limits: Limits | None = None) -> None:
        self._sandbox = sandbox
        self._scratch = scratch
        self._limits = limits or Limits()
        self._numbers = itertools.count()
        self._records_reads = records_reads(scratch)
        self._failures: dict[object, list[_Ran]] = {}

    def prove(self, pair: CommandPair, run: Run, repository: Repository) -> Proof:
        """Return what running the commands of a pair shows.

        Args:
            pair: The commands.
            run: The session.
            repository: The repository of the session.
        """
        for call in (pair.failed, pair.worked):
            if harm := harm_of(call.command, str(repository.root)):
                return Proof("harmful", harm)
        commit = commit_of(run, repository)
        if not commit:
            return Proof("not reproducible", "the repository had no commit when the session began")
        state = _State(repository, run, commit, pair.before)
        try:
            found = self._with_steps(pair, state) if pair.grade == "B" else self._with_another_command(pair, state)
        except (NoCopyError, RefusedError, SandboxError, OSError) as error:
            return Proof("not reproducible", str(error))
        return found

    def _with_another_command(self, pair: CommandPair, state: _State) -> Proof:
        """Return what two commands do in the state of the session, and whether that still holds today."""
        failures = self._failed(pair.failed, state)
        if against := _not_failed(pair, [ran.outcome for ran in failures]):
            return against
        repairs = [self._run(pair.worked, state) for _ in range(_TIMES)]
        failed, worked = failures[-1], repairs[-1]
        if against := _not_repaired([ran.outcome for ran in repairs], failed.outcome):
            return against
        if not self._does_the_same(pair, failed, worked, state):
            return Proof("bypass", "it may only skip what failed")
        return self._today(pair, state) or Proof(
            "proven", "", state.commit, failed.outcome, worked.outcome, self._sandbox.name
        )

    def _failed(self, call: ShellCall, state: _State) -> list[_Ran]:
        """Run a command that failed, once for all of the commands that may be right in its place."""
        key = (state.repository.root, state.commit, state.edits, state.run.cwd, call.command, call.folder)
        if key not in self._failures:
            self._failures[key] = [self._run(call, state) for _ in range(_TIMES)]
        return self._failures[key]

    def _does_the_same(self, pair: CommandPair, failed: _Ran, worked: _Ran, state: _State) -> bool:
        """Whether a command that worked has got further than the one that failed, or at least as far."""
        error = error_line(failed.outcome.output)
        if error and error in worked.outcome.output:
            return False  # it failed there, too
        if self._records_reads and worked.read - failed.read:
            return True
        return self._notices(pair, failed, state)

    def _notices(self, pair: CommandPair, failed: _Ran, state: _State) -> bool:
        """Whether the command that worked fails if the line is changed where the other one failed."""
        with self._copied(state) as (place, _):
            folder = folder_of(pair.failed.folder, state.run, place)
            output, error = failed.outcome.output, error_line(failed.outcome.output)
            changes = changes_where_it_failed(output, error, place, folder)
        return any(
            not self._run(pair.worked, state, then=change.apply).outcome.worked for change in changes[:_MOST_CHANGES]
        )

    def _today(self, pair: CommandPair, state: _State) -> Proof | None:
        """Return why two commands do not show the same in the current commit; None if they do."""
        head = state.repository.head()
        if head == state.commit and not state.edits:
            return None
        today = replace(state, commit=head, edits=())
        failed = self._run(pair.failed, today).outcome
        if head == state.commit:
            # What the session added may be needed for the same failure, but it must not be what causes it.
            return Proof("obsolete", "without the edits of the session, it works") if failed.worked else None
        against = _not_failed(pair, [failed])
        against = against or _not_repaired([self._run(pair.worked, today).outcome], failed)
        return Proof("obsolete", f"in the current commit, {against.detail}") if against else None

    def _with_steps(self, pair: CommandPair, state: _State) -> Proof:
        """Return what a command does before and after the edits and commands that may have repaired it."""
        failures = self._failed(pair.failed, state)
        if against := _not_failed(pair, [ran.outcome for ran in failures]):
            return against
        root = str(state.repository.root)
        harmful = {call: harm for call in pair.commands if (harm := harm_of(call.command, root))}
        steps = [step for step in pair.steps if isinstance(step, Edit) or step not in harmful]
        if found := self._with_generator(steps, pair, state, failures):
            return found
        needed = self._needed(steps, pair, state)
        commands = [step for step in needed if isinstance(step, ShellCall)]
        if 0 < len(commands) < len(needed) and self._run(pair.worked, state, commands).outcome.worked:
            needed = commands
        found = self._repaired_by(needed, pair, state, failures)
        if harmful and found.verdict == "not reproducible":
            return Proof("harmful", next(iter(harmful.values())))
        return found

    def _with_generator(
        self, steps: Sequence[Edit | ShellCall], pair: CommandPair, state: _State, failures: Sequence[_Ran]
    ) -> Proof | None:
        """Return what is shown without the edits of files that a command writes; None if no such command is needed."""
        written = list(self._written(steps, state))
        if not written:
            return None
        made = {found.path for found in written}
        without = replace(state, edits=tuple(edit for edit in state.edits if _relative(edit, state) not in made))
        needed = self._needed(steps, pair, without)
        written = [found for found in written if found.command in needed]
        found = self._repaired_by(needed, pair, without, failures)
        return replace(found, written=tuple(written)) if written and found.verdict == "proven" else None

    def _repaired_by(
        self, steps: Sequence[Edit | ShellCall], pair: CommandPair, state: _State, failures: Sequence[_Ran]
    ) -> Proof:
        repairs = [self._run(pair.worked, state, steps) for _ in range(_TIMES)]
        failed, worked = failures[-1], repairs[-1]
        if against := _not_repaired([ran.outcome for ran in repairs], failed.outcome):
            return against
        if not self._records_reads:
            return Proof("not reproducible", "the file system does not record which files a command reads")
        if left_out := failed.read - worked.read:
            return Proof("bypass", f"it does not read {min(left_out)} anymore")
        if self._undoes(steps, state):
            return Proof("bypass", "it only undoes the edits of the session")
        proof = Proof("proven", "", state.commit, failed.outcome, worked.outcome, self._sandbox.name)
        return replace(proof, steps=tuple(steps))

    def _needed(
        self, steps: Sequence[Edit | ShellCall], pair: CommandPair, state: _State
    ) -> Sequence[Edit | ShellCall]:
        """Return the edits and the commands without which the check fails; no command if the edits suffice."""
        commands = [step for step in steps if isinstance(step, ShellCall)]
        edits = [step for step in steps if isinstance(step, Edit)]
        if not commands or self._run(pair.worked, state, edits).outcome.worked:
            return edits
        for command in commands if len(commands) > 1 else ():
            fewer = [step for step in steps if step is not command]
            if self._run(pair.worked, state, fewer).outcome.worked:
                steps = fewer
        return steps

    def _undoes(self, steps: Sequence[Edit | ShellCall], state: _State) -> bool:
        """Whether commands restore the commit, which repairs only what the session itself had broken."""
        if not state.edits or any(isinstance(step, Edit) for step in steps):
            return False
        with self._copied(replace(state, edits=())) as (place, _):
            clean = contents(place.tree)
        with self._copied(state, steps) as (place, _):
            return contents(place.tree) == clean

    def _written(self, steps: Sequence[Edit | ShellCall], state: _State) -> Iterator[Written]:
        """Yield the files that the agent had edited before, and that a command writes whatever is in them."""
        own = {_relative(step, state) for step in steps if isinstance(step, Edit)}
        edited = {_relative(edit, state) for edit in state.edits if edit.new is not None} - own
        for command in [step for step in steps if isinstance(step, ShellCall)] if edited else ():
            with self._copied(state) as (place, _):
                before = contents(place.tree)
                self._run_in(place, command, state)
                after = contents(place.tree)
            overwritten = {path for path in edited if path in before and after.get(path) not in (None, before[path])}
            yield from (Written(path, command) for path in sorted(overwritten) if self._restores(path, command, state))

    def _restores(self, path: str, command: ShellCall, state: _State) -> bool:
        """Whether a command writes a file of the commit as it was after it is removed."""
        with self._copied(replace(state, edits=())) as (place, _):
            before = contents(place.tree)
            if path not in before:
                return False
            (place.tree / path).unlink()
            self._run_in(place, command, state)
            return contents(place.tree).get(path) == before[path]

    def _run_in(self, place: Place, call: ShellCall, state: _State) -> Outcome:
        return self._sandbox.run(call.command, place, folder_of(call.folder, state.run, place), self._limits)

    def _run(
        self,
        call: ShellCall,
        state: _State,
        steps: Sequence[Edit | ShellCall] = (),
        then: Callable[[Path], None] = lambda tree: None,
    ) -> _Ran:
        """Run a command in a fresh copy, so that no command sees what another one left.

        Args:
            call: The command.
            state: What to copy.
            steps: What to do in the copy before.
            then: Called with the copy before the command runs.
        """
        with self._copied(state, steps) as (place, stopped):
            if stopped is not None:
                return _Ran(stopped, frozenset())
            then(place.tree)
            before = marks(place.tree)
            outcome = self._run_in(place, call, state)
            return _Ran(outcome, read_since(place.tree, before))

    @contextmanager
    def _copied(self, state: _State, steps: Sequence[Edit | ShellCall] = ()) -> Iterator[tuple[Place, Outcome | None]]:
        """Make a copy and do some steps in it; with the outcome of a command among them that failed."""
        folder = self._scratch / f"copy-{next(self._numbers)}"
        repository, stopped = state.repository, None
        try:
            place = copy_at(repository, state.commit, folder, shows_copy_as_root=self._sandbox.shows_copy_as_root)
            for step in (*state.edits, *steps):
                if isinstance(step, Edit):
                    apply_edit(step, place.tree, repository.root, state.run.cwd)
                    continue
                outcome = self._run_in(place, step, state)
                if not outcome.worked:
                    stopped = outcome
                    break
            yield place, stopped
        finally:
            if folder.exists():
                remove_tree(folder)


def _relative(edit: Edit, state: _State) -> str:
    return os.path.relpath(os.path.join(state.run.cwd, edit.path), state.repository.root)


def _not_failed(pair: CommandPair, failures: Sequence[Outcome]) -> Proof | None:
    """Return why the failure of a session was not seen again; None if it was."""
    failed = failures[-1]
    if any(outcome.limit for outcome in failures):
        return Proof("not reproducible", f"the limit for {failed.limit or 'time'} was reached")
    if all(outcome.worked for outcome in failures):
        return Proof("transient", "the command that failed works")
    if any(outcome.worked for outcome in failures):
        return Proof("flaky", "the command that failed works sometimes")
    line = error_line(pair.failed.output)
    if all(is_same_line(line, outcome.output) for outcome in failures):
        return None
    if failed.missed_network:
        return Proof("network", error_line(failed.output))
    if failed.exit_code == _NOT_FOUND:
        return Proof("not reproducible", f"a tool is missing: {error_line(failed.output)}")
    return Proof("not reproducible", f"it fails with another error: {error_line(failed.output)}")


def _not_repaired(repairs: Sequence[Outcome], failed: Outcome) -> Proof | None:
    """Return why what worked in a session does not show what is right; None if it does."""
    worked = repairs[-1]
    if failed.missed_network and not worked.missed_network:
        return Proof("network", error_line(failed.output))
    if all(outcome.worked for outcome in repairs):
        return None
    if any(outcome.worked for outcome in repairs):
        return Proof("flaky", "the command that worked works sometimes")
    if worked.missed_network:
        return Proof("network", error_line(worked.output))
    return Proof("not reproducible", f"the command that worked fails: {error_line(worked.output)}")


def folder_of(folder: str, run: Run, place: Place) -> str:
    """Return a folder of a session relative to the repository.

    Args:
        folder: The folder of a command; empty for that of the session.
        run: The session.
        place: The copy of the repository.

    Raises:
        NoCopyError: It is not in the repository, or does not exist in this commit.
    """
    named = os.path.realpath(os.path.join(run.cwd, folder.removeprefix("file://")))
    relative = os.path.relpath(named, place.root)
    if relative.split(os.sep)[0] == "..":
        raise NoCopyError("the command ran outside the repository")
    inside = os.path.realpath(place.tree / relative)
    if not os.path.isdir(inside) or not f"{inside}/".startswith(f"{os.path.realpath(place.tree)}/"):
        raise NoCopyError(f"the folder {relative} does not exist in the commit")
    return "" if relative == "." else relative


def commit_of(run: Run, repository: Repository) -> str:
    """Return the commit that a session began with; empty if it cannot be told.

    Args:
        run: The session.
        repository: Its repository.
    """
    if re.fullmatch(r"[0-9a-f]{7,64}", run.commit):  # a log may contain anything, such as an option of git
        return run.commit
    if run.started is None:
        return ""
    return repository.commit_before(run.started, text_of(run.metadata.get("branch")))


def evidence_lines(pair: CommandPair, proof: Proof) -> Iterator[str]:
    """Yield the lines that show a person what was run.

    Args:
        pair: The commands.
        proof: What running them showed.
    """
    yield f"Ran at {proof.commit[:7]} in a copy of the repository, network off ({proof.sandbox})"
    for call, outcome in ((pair.failed, proof.failed), (pair.worked, proof.worked)):
        assert outcome is not None
        said = error_line(call.output) if call is pair.failed else last_line(outcome.output)
        command = call.command if pair.grade == "A" else f"{call.command} ({_state(call, pair)})"
        yield f'  {command}   exit {outcome.exit_code}   "{said}"   {_TIMES} of {_TIMES} runs'
    for written in proof.written:
        yield f"  {written.command.command}   wrote {written.path} again after it was removed"


def _state(call: ShellCall, pair: CommandPair) -> str:
    commands = [f"`{step.command}`" for step in pair.commands]
    done = " and ".join([*(["the edit"] if pair.between else []), *commands])
    return f"{'before' if call is pair.failed else 'after'} {done}"


def last_line(output: str) -> str:
    """Return the last line of an output that says something."""
    return next((line.strip()[:200] for line in reversed(output.splitlines()) if line.strip()), "")
