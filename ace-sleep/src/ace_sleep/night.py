"""One night: reads new sessions, mines them, proves what may be a lesson, and stages the best for a decision."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace.protocols import LLMCallError, UnusableAnswerError
from ace.redaction import Redactor
from ace.skill import Skill
from ace_sleep.agents import CodingAgent
from ace_sleep.budget import Budget, BudgetSpentError
from ace_sleep.ledger import Ledger, NightRecord
from ace_sleep.lessons import Lesson, Sighting, digest_of, word_with
from ace_sleep.mining import mine
from ace_sleep.projects import Project, StagedLesson, all_projects, project_of
from ace_sleep.proof import Proof, Prover, commit_of
from ace_sleep.repository import Repository, find_repository
from ace_sleep.said import as_proven
from ace_sleep.sandbox import Limits, Sandbox
from ace_sleep.sessions import Session, SessionFile, read_sessions
from ace_sleep.skills import files_of
from ace_sleep.trials import AgentFailedError, Trial, Trials
from ace_sleep.triggers import try_trigger
from ace_sleep.unproven import Unproven
from ace_sleep.upkeep import lessons_to_remove
from ace_sleep.wishes import Wish, wish_in

if TYPE_CHECKING:
    from ace.protocols import LLMClientLike

__all__ = ["MOST_LESSONS", "Found", "Night", "Staged", "gather"]

MOST_LESSONS: Final = 5
"""The lessons that one night proposes."""
_MOST_STATES: Final = 2
"""The sessions in whose states a lesson must hold, if it was seen in several."""


@dataclass
class Found:
    """The sessions that are not done, by repository."""

    sessions: dict[Path, list[tuple[Session, Repository]]] = field(default_factory=lambda: defaultdict(list))
    files: dict[str, str] = field(default_factory=dict)
    """The marks of the files that were read."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Why sessions are not used, each with its number."""
    other: dict[str, str] = field(default_factory=dict)
    """The marks of the sessions that are not used."""
    problems: list[str] = field(default_factory=list)
    """What cannot be read."""

    @property
    def count(self) -> int:
        """The number of sessions."""
        return sum(map(len, self.sessions.values()))


def gather(
    files: Sequence[SessionFile], ledger: Ledger, own: Path, since: datetime | None = None, project: Path | None = None
) -> Found:
    """Return the sessions in files that are not done.

    Args:
        files: Where sessions may be.
        ledger: Knows what is done.
        own: The folder of the copies that commands are replayed in; sessions there are our own.
        since: Sessions that ended before are skipped.
        project: The folder of the only repository whose sessions are wanted.
    """
    found = Found()
    wanted = None if project is None else find_repository(str(project))
    for file in files:
        if ledger.has_file(file):
            continue
        found.files[str(file.path)] = file.mark
        for session in read_sessions([file], lambda problem: found.problems.append(str(problem)), since):
            if not ledger.has_session(session):
                _sort_in(session, found, own, wanted)
    return found


def _sort_in(session: Session, found: Found, own: Path, wanted: Repository | None) -> None:
    cwd = session.run.cwd
    repository = find_repository(cwd) if os.path.isabs(cwd) else None
    if repository is None:
        if wanted is None:
            found.other[session.key] = session.mark
            found.skipped[_why_without_repository(cwd)] += 1
        else:
            found.files.pop(str(session.file), None)  # another night may look at it
    elif wanted is not None and repository.common != wanted.common:
        found.files.pop(str(session.file), None)
    elif own in repository.root.parents:
        found.other[session.key] = session.mark
        found.skipped["are our own"] += 1
    else:
        found.sessions[repository.common].append((session, repository))


def _why_without_repository(cwd: str) -> str:
    if not cwd:
        return "do not say where they ran"
    return "are not in a git repository" if os.path.isdir(cwd) else "are in a folder that was moved or deleted"


@dataclass(frozen=True, slots=True)
class Staged:
    """A lesson that waits for a decision."""

    project: Project
    lesson: StagedLesson
    skill_id: str


@dataclass
class Night:
    """One night.

    Args:
        ledger: Knows what is done.
        sandbox: Where commands are run again.
        scratch: The folder for the copies.
        redactor: Replaces secrets.
        client: The model that words the lessons; None for words that follow from the commands.
        agent: The agent that the lessons are tried with; None if they are not tried.
        budget: What all of this may use.
        limits: What one command may use.
        say: Called with a line for each step.
    """

    ledger: Ledger
    sandbox: Sandbox
    scratch: Path
    redactor: Redactor
    client: LLMClientLike | None = None
    agent: CodingAgent | None = None
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    say: Callable[[str], None] = lambda line: None
    outage: LLMCallError | AgentFailedError | None = field(default=None, init=False)
    """Why the model or the agent could not be used; the sessions of the lessons that needed it are not done."""

    def run(self, found: Found) -> tuple[NightRecord, list[Staged]]:
        """Return what was done, and the staged lessons.

        Args:
            found: The sessions.
        """
        record = NightRecord(at=datetime.now(UTC).isoformat(timespec="seconds"), sessions=found.count)
        lessons: list[Lesson] = []
        open_keys: set[str] = set()
        for pairs in found.sessions.values():
            project = project_of(pairs[0][1])
            prover = Prover(self.sandbox, self.scratch, self.limits)
            explained: set[tuple[str, int]] = set()
            for key, seen in self._candidates(project, pairs).items():
                sightings = [sighting for sighting in seen if sighting.failure not in explained]
                if not sightings:
                    continue  # another command has been proven to be the right one
                record.candidates += 1
                if self.budget.is_time_over:
                    open_keys |= _keys(sightings)
                    record.error = "the time for proving is over; the other sessions are looked at next time"
                    continue
                lesson = self._proven(prover, project, key, sightings, pairs, record)
                if lesson is not None:
                    lessons.append(lesson)
                    explained |= {sighting.failure for sighting in sightings}
        record.proven = len(lessons)
        lessons.sort(key=lambda lesson: lesson.rank, reverse=True)
        for lesson in lessons[MOST_LESSONS:]:
            open_keys |= _keys(lesson.sightings)
        staged = self._stage(lessons[:MOST_LESSONS], record, open_keys)
        staged += self._unproven(found, MOST_LESSONS - len(staged), record, open_keys)
        staged += self._upkeep()
        record.calls, record.agent_runs = self.budget.calls_made, self.budget.runs_made
        self._note_done(found, open_keys)
        return record, staged

    def _upkeep(self) -> list[Staged]:
        """Stage proposals to remove accepted lessons."""
        return [
            Staged(project, lesson, id)
            for project in all_projects()
            for lesson in list(lessons_to_remove(project, self.sandbox, self.scratch, self.limits))
            for id in project.stage([lesson])
        ]

    def _unproven(self, found: Found, room: int, record: NightRecord, open_keys: set[str]) -> list[Staged]:
        """Stage what several sessions show but nothing proves, as far as there is room."""
        unproven = Unproven(self.redactor, self.client, self.budget)
        unproven.outage = self.outage if isinstance(self.outage, LLMCallError) else None
        unproven.note(found.sessions)
        projects = [project_of(pairs[0][1]) for pairs in found.sessions.values()]
        staged: list[Staged] = []
        try:
            for project, lessons in unproven.lessons(projects, room):
                for lesson in lessons:
                    ready = self._as_said(self._triggered(project, lesson), found, record)
                    if ready is not None:
                        staged += [Staged(project, ready, id) for id in project.stage([ready])]
        except (LLMCallError, AgentFailedError) as error:
            self.outage, record.error = error, str(error)
            open_keys |= {session.key for pairs in found.sessions.values() for session, _ in pairs}
        record.unproven = len(staged)
        open_keys |= unproven.open_keys
        if unproven.outage is not None:
            self.outage, record.error = unproven.outage, str(unproven.outage)
        elif unproven.open_keys and not record.error:
            record.error = f"{self.budget.spent()}; the other sessions are looked at next time"
        return staged

    def _triggered(self, project: Project, lesson: StagedLesson) -> StagedLesson:
        """Return a lesson, with what makes the agent open it if it becomes a skill folder."""
        if self.agent is None or lesson.about.lands != "folder":
            return lesson
        repository = find_repository(str(project.root))
        assert repository is not None, "its sessions were found in it"
        files = files_of(Skill("lesson-00001", lesson.section, lesson.text), lesson.about, project.root)
        trigger = try_trigger(self._trials(), self.client, lesson, files, repository)
        return replace(lesson, evidence=f"{lesson.evidence}\n{trigger}")

    def _as_said(self, lesson: StagedLesson, found: Found, record: NightRecord) -> StagedLesson | None:
        """Return a lesson of what people said, with what the agent does with it; None if that is worse than without."""
        if self.agent is None or not lesson.quotes:
            return lesson
        trial, wish = self._asked_again(lesson, found)
        self.say(str(trial))
        if trial.verdict == "worse":
            record.reasons["worse"] = record.reasons.get("worse", 0) + 1
            return None
        counts = [f"What counts: {wish}"] if wish else []
        tried = replace(lesson, evidence="\n".join([lesson.evidence, *counts, str(trial)]))
        return as_proven(tried, trial.agent) if trial.verdict == "proven" else tried

    def _asked_again(self, lesson: StagedLesson, found: Found) -> tuple[Trial, Wish | None]:
        """Return what the agent does on the prompt of a session in which people said something that can be checked."""
        assert self.agent is not None
        every = [pair for pairs in found.sessions.values() for pair in pairs]
        read = {self.redactor.redact_name(session.key): (session.run, of) for session, of in every}
        reason = "its sessions were read in an earlier night"
        for run, repository, said in ((*read[key], said) for key, said in lesson.quotes if key in read):
            wish, commit = wish_in(run, said, str(repository.root)), commit_of(run, repository)
            if harm := wish.harm(str(repository.root)):
                reason = f"it would do harm: {harm}"
            elif not wish:
                reason = "nothing that was named in it was run or changed afterwards"
            elif not commit:
                reason = "the commit of the session is not known"
            else:
                return self._trials().compare(lesson.text, wish, run, repository, commit), wish
        return Trial(agent=self.agent.title, skipped=reason), None

    def _candidates(
        self, project: Project, pairs: Sequence[tuple[Session, Repository]]
    ) -> Mapping[str, list[Sighting]]:
        """Return the pairs of commands of a project by what they have in common, without those proposed before."""
        known = project.staged()
        groups: dict[str, list[Sighting]] = defaultdict(list)
        for session, repository in pairs:
            for pair in mine(session.run):
                groups[pair.key(str(repository.root))].append(Sighting(session, pair, str(repository.root)))
        return {key: sightings for key, sightings in groups.items() if digest_of(key) not in known}

    def _proven(
        self,
        prover: Prover,
        project: Project,
        key: str,
        sightings: list[Sighting],
        pairs: Sequence[tuple[Session, Repository]],
        record: NightRecord,
    ) -> Lesson | None:
        """Return the lesson if running the commands proves it, in the states of two sessions if there are several."""
        repositories = {session.key: repository for session, repository in pairs}
        proofs: list[tuple[Sighting, Proof]] = []
        states: set[object] = set()
        for sighting in sightings:
            pair, run = sighting.pair, sighting.session.run
            commit = commit_of(run, repositories[sighting.session.key])
            state = (commit, pair.before, pair.failed.command, pair.worked.command)
            if state in states:
                continue  # it would only show the same again
            states.add(state)
            if any(self.redactor.find(call.command) for call in (pair.failed, pair.worked)):
                proof = Proof("harmful", "it contains a secret")
            else:
                proof = prover.prove(pair, run, repositories[sighting.session.key])
            proofs.append((sighting, proof))
            self.say(f"{project.name}: {sighting.shown(pair.failed)}: {proof.verdict} {proof.detail}".rstrip())
            if sum(known.verdict == "proven" for _, known in proofs) >= _MOST_STATES or _is_final(proof):
                break
        good = [(sighting, proof) for sighting, proof in proofs if proof.verdict == "proven"]
        against = [proof for _, proof in proofs if _is_final(proof)]
        if not good or against:
            verdict = (against or [proofs[-1][1]])[0].verdict
            record.reasons[verdict] = record.reasons.get(verdict, 0) + 1
            return None
        first, proof = good[0]
        others = [sighting for sighting in sightings if sighting is not first]
        needed = replace(first, pair=replace(first.pair, steps=proof.steps))
        return Lesson(project, key, [needed, *others], proof)

    def _stage(self, lessons: Sequence[Lesson], record: NightRecord, open_keys: set[str]) -> list[Staged]:
        """Word the lessons, try them, and stage them, as long as the budget lasts and nothing fails."""
        staged: list[Staged] = []
        for number, proven in enumerate(lessons):
            try:
                lesson = self._tried(self._worded(proven), record)
            except BudgetSpentError as error:
                record.error = f"{error}; the other sessions are looked at next time"
            except (LLMCallError, AgentFailedError) as error:
                record.error = str(error)
                self.outage = error
            else:
                staged += self._staged(lesson)
                continue
            open_keys |= {key for left in lessons[number:] for key in _keys(left.sightings)}
            break
        record.staged = len(staged)
        return staged

    def _staged(self, lesson: Lesson | None) -> list[Staged]:
        if lesson is None:
            return []
        ready = lesson.staged(self.redactor)
        return [Staged(lesson.project, ready, id) for id in lesson.project.stage([ready])]

    def _worded(self, lesson: Lesson) -> Lesson | None:
        """Return a lesson with the words of the model; None if the model finds nothing to learn."""
        if self.client is None:
            return lesson
        self.budget.check()
        try:
            wording = word_with(self.client, lesson, self.redactor)
        except UnusableAnswerError:
            wording = ""  # the words that follow from the commands are used
        self.budget.note_call()
        return None if wording is None else replace(lesson, wording=wording)

    def _tried(self, lesson: Lesson | None, record: NightRecord) -> Lesson | None:
        """Return a lesson with what the agent does with it; None if that is worse than without it."""
        if lesson is None or self.agent is None:
            return lesson
        first = lesson.sightings[0]
        repository = find_repository(first.root)
        assert repository is not None, "commands were run in copies of it"
        text, run = lesson.text(self.redactor), first.session.run
        trial = self._trials().compare(text, first.pair, run, repository, lesson.proof.commit)
        self.say(f"{lesson.project.name}: {trial}")
        if trial.verdict == "worse":
            record.reasons["worse"] = record.reasons.get("worse", 0) + 1
            return None
        return replace(lesson, trial=trial)

    def _trials(self) -> Trials:
        assert self.agent is not None
        return Trials(
            agent=self.agent,
            sandbox=self.sandbox,
            scratch=self.scratch,
            budget=self.budget,
            redactor=self.redactor,
            limits=self.limits,
        )

    def _note_done(self, found: Found, open_keys: set[str]) -> None:
        """Remember the sessions that are done; a file is done if all of its sessions are."""
        every = [session for pairs in found.sessions.values() for session, _ in pairs]
        done = {session.key: session.mark for session in every if session.key not in open_keys}
        unfinished = {str(session.file) for session in every if session.key in open_keys}
        files = {path: mark for path, mark in found.files.items() if path not in unfinished}
        self.ledger.note(files, {**found.other, **done})


def _keys(sightings: Sequence[Sighting]) -> set[str]:
    return {sighting.session.key for sighting in sightings}


def _is_final(proof: Proof) -> bool:
    """Whether a proof speaks against the lesson, rather than only not for it."""
    return proof.verdict in ("transient", "flaky", "obsolete", "harmful", "bypass")
