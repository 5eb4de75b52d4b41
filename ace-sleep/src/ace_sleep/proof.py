"""Proves by running what a session shows: the commands are run again in copies of the repository at its commit."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ace.logs import Run, text_of
from ace_sleep.edits import Edit, apply_edit
from ace_sleep.mining import CommandPair, ShellCall, error_line, is_same_line
from ace_sleep.repository import NoCopyError, Repository, copy_at
from ace_sleep.sandbox import Limits, Outcome, Place, RefusedError, Sandbox, SandboxError
from ace_sleep.shell import harm_of
from ace_sleep.workspace import remove_tree

__all__ = ["Proof", "Prover", "commit_of"]

_TIMES: Final = 2

Verdict = Literal["proven", "transient", "obsolete", "flaky", "network", "harmful", "not reproducible"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What running the commands of a pair again showed."""

    verdict: Verdict
    """Only `proven` makes a lesson. `transient`: the command that failed works in the same state; `obsolete`: it works
    in the current commit; `network`: it needs the network, which is off."""
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
        try:
            found = self._in_state(pair, run, repository, commit, _TIMES)
            head = repository.head()
            if found.verdict == "proven" and pair.grade == "A" and head != commit:
                return self._confirmed(found, self._in_state(pair, run, repository, head, 1, is_session=False))
        except (NoCopyError, RefusedError, SandboxError) as error:
            return Proof("not reproducible", str(error))
        return found

    def _confirmed(self, proof: Proof, today: Proof) -> Proof:
        """Return the proof, unless the current commit shows that it does not hold anymore."""
        return proof if today.verdict == "proven" else Proof("obsolete", f"in the current commit, {today.detail}")

    def _in_state(
        self, pair: CommandPair, run: Run, repository: Repository, commit: str, times: int, *, is_session: bool = True
    ) -> Proof:
        """Return what the commands do in one state: the commit, with the edits of the session if it is that of it."""
        before = pair.before if is_session else ()
        after = (*before, *pair.between) if pair.grade == "B" else before
        failures = [self._run(pair.failed, before, run, repository, commit) for _ in range(times)]
        failed = failures[-1]
        line = error_line(pair.failed.output)
        if any(outcome.limit for outcome in failures):
            return Proof("not reproducible", f"the limit for {failed.limit or 'time'} was reached")
        if all(outcome.worked for outcome in failures):
            return Proof("transient", "the command that failed works")
        if any(outcome.worked for outcome in failures):
            return Proof("flaky", "the command that failed works sometimes")
        if not all(is_same_line(line, outcome.output) for outcome in failures):
            return self._fails_otherwise(failed)
        repairs = [self._run(pair.worked, after, run, repository, commit) for _ in range(times)]
        if failed.missed_network and not repairs[-1].missed_network:
            return Proof("network", error_line(failed.output))
        if all(outcome.worked for outcome in repairs):
            return Proof("proven", "", commit, failed, repairs[-1], self._sandbox.name)
        if any(outcome.worked for outcome in repairs):
            return Proof("flaky", "the command that worked works sometimes")
        if repairs[-1].missed_network:
            return Proof("network", error_line(repairs[-1].output))
        return Proof("not reproducible", f"the command that worked fails: {error_line(repairs[-1].output)}")

    def _fails_otherwise(self, failed: Outcome) -> Proof:
        if failed.missed_network:
            return Proof("network", error_line(failed.output))
        if failed.exit_code == 127:
            return Proof("not reproducible", f"a tool is missing: {error_line(failed.output)}")
        return Proof("not reproducible", f"it fails with another error: {error_line(failed.output)}")

    def _run(self, call: ShellCall, edits: Sequence[Edit], run: Run, repository: Repository, commit: str) -> Outcome:
        """Run a command in a fresh copy, so that no command sees what another one left."""
        folder = self._scratch / f"copy-{next(self._numbers)}"
        try:
            place = copy_at(repository, commit, folder, shows_copy_as_root=self._sandbox.shows_copy_as_root)
            for edit in edits:
                apply_edit(edit, place.tree, repository.root, run.cwd)
            return self._sandbox.run(call.command, place, folder_of(call.folder, run, place), self._limits)
        finally:
            if folder.exists():
                remove_tree(folder)


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


def _state(call: ShellCall, pair: CommandPair) -> str:
    return "before the edit" if call is pair.failed else "after the edit"


def last_line(output: str) -> str:
    """Return the last line of an output that says something."""
    return next((line.strip()[:200] for line in reversed(output.splitlines()) if line.strip()), "")
