"""Lessons: what several sessions show together, in words, with the evidence that a person is shown."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, Field

from ace.redaction import Redactor
from ace_sleep.mining import CommandPair, ShellCall, error_line
from ace_sleep.projects import LessonFacts, Project, StagedLesson
from ace_sleep.proof import Proof, evidence_lines
from ace_sleep.sessions import Session

if TYPE_CHECKING:
    from ace.protocols import LLMClientLike
    from ace_sleep.trials import Trial

__all__ = ["Lesson", "Sighting", "digest_of", "remark_key", "short_text", "word_with"]

_GRADES: Final = {"A": 2.0, "B": 1.0}
_LONGEST_TEXT: Final = 300
_LONGEST_QUOTE: Final = 200
_SECTIONS: Final = {"A": "commands", "B": "fixes"}

_PROMPT: Final = """\
Coding agents made the same mistake in {sessions} of one software project. It was reproduced by running the commands.
Write the lesson as one sentence of at most 30 words for the instructions that an agent of this project reads before it
begins. Say what to do, then why. Use the exact names of commands, files and settings. If nothing here would help
another agent with another task in this project, leave the lesson empty.

What failed:  {failed}
Its error:    {error}
What worked:  {worked}
{written}"""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A pair of commands in a session."""

    session: Session
    pair: CommandPair
    root: str
    """The folder of the worktree that the session ran in."""

    @property
    def failure(self) -> tuple[str, int]:
        """Identifies the command that failed."""
        return self.session.key, self.pair.failed.at

    def shown(self, call: ShellCall) -> str:
        """Return a command of the session as a lesson shows it."""
        return call.shown(self.session.run, self.root)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson that was proven by running."""

    project: Project
    key: str
    """What its sightings have in common."""
    sightings: Sequence[Sighting]
    proof: Proof
    wording: str = ""
    """The words of a model; empty for those that follow from the commands."""
    trial: Trial | None = None
    """What trying it with an agent showed."""

    @property
    def rank(self) -> float:
        """How much it is worth: how often it happened, how much was lost, and how well it is proven."""
        lost = sum(sighting.pair.steps_lost for sighting in self.sightings) / len(self.sightings)
        return len(self._sessions) * lost * _GRADES[self._pair.grade]

    @property
    def digest(self) -> str:
        """Identifies the lesson in a project."""
        return digest_of(self.key)

    @property
    def _first(self) -> Sighting:
        return self.sightings[0]

    @property
    def _pair(self) -> CommandPair:
        return self._first.pair

    @property
    def _sessions(self) -> list[Session]:
        return list({sighting.session.key: sighting.session for sighting in self.sightings}.values())

    def text(self, redactor: Redactor) -> str:
        """Return the lesson as agents are shown it.

        Args:
            redactor: Replaces secrets.
        """
        return redactor.redact(self.wording or self._own_words())[:_LONGEST_TEXT]

    def staged(self, redactor: Redactor) -> StagedLesson:
        """Return the lesson as it enters the skillbook.

        Args:
            redactor: Replaces secrets.
        """
        return StagedLesson(
            key=self.digest,
            section=_SECTIONS[self._pair.grade],
            text=self.text(redactor),
            evidence=redactor.redact("\n".join(self._evidence())),
            sessions=[redactor.redact_name(session.key) for session in self._sessions],
            task=redactor.redact(self._sessions[0].run.task)[:_LONGEST_TEXT],
            error=redactor.redact(error_line(self._pair.failed.output)),
            also=[remark_key(redactor.redact_name(session), redactor.redact(said)) for session, said in self._said()],
            about=self._facts(redactor),
        )

    def _said(self) -> Iterator[tuple[str, str]]:
        """Yield what a person said between the commands, with the session: it needs no further lesson."""
        yield from ((seen.session.key, seen.pair.said) for seen in self.sightings if seen.pair.said)

    def _facts(self, redactor: Redactor) -> LessonFacts:
        failed = self._first.shown(self._pair.failed)
        if self._pair.grade == "A":
            return LessonFacts(
                command=redactor.redact(self._first.shown(self._pair.worked)), mistake=redactor.redact(failed)
            )
        if not self._pair.commands:
            return LessonFacts()
        command = redactor.redact(self._first.shown(self._pair.commands[-1]))
        return LessonFacts(command=command, mistake="" if self._pair.between else redactor.redact(failed))

    def prompt(self, redactor: Redactor) -> str:
        """Return what a model is asked for the words of the lesson. It is not shown how the lesson was proven.

        Args:
            redactor: Replaces secrets.
        """
        pair = self._pair
        worked = self._first.shown(pair.worked)
        if pair.grade == "B":
            worked += f", after {self._needed('an edit of', '')}"
        facts = _PROMPT.format(
            sessions=_times(len(self._sessions), "session"),
            failed=self._first.shown(pair.failed),
            error=error_line(pair.failed.output),
            worked=worked,
            written="".join(
                f"The agent had edited `{written.path}`, which `{self._first.shown(written.command)}` writes anew.\n"
                for written in self.proof.written
            ),
        )
        said = [f"A person said: {sighting.pair.said[:_LONGEST_QUOTE]}\n" for sighting in self.sightings]
        return redactor.redact(facts + "".join(line for line in dict.fromkeys(said) if line.strip()[16:]))

    def accepts(self, wording: str) -> bool:
        """Return whether the words of a model may be those of the lesson.

        Args:
            wording: One sentence.
        """
        pair = self._pair
        named = [self._first.shown(call) for call in (pair.commands if pair.grade == "B" else [pair.worked])]
        is_short = 0 < len(wording) <= _LONGEST_TEXT and "\n" not in wording
        return is_short and all(command in wording for command in named)

    def _own_words(self) -> str:
        pair = self._pair
        failed, error = self._first.shown(pair.failed), error_line(pair.failed.output)
        why = f": {error}" if error else ""
        if pair.grade == "A":
            return f"Run `{self._first.shown(pair.worked)}`; `{failed}` fails here{why}."
        if self.proof.written:
            writers = dict.fromkeys(written.command for written in self.proof.written)
            paths = ", ".join(f"`{path}`" for path in dict.fromkeys(written.path for written in self.proof.written))
            made = f"which {self._commands(list(writers))} writes"
            return f"Do not edit {paths}, {made}: {self._needed('change', 'run')}."
        if not pair.between:
            return f"Run {self._commands(pair.commands)} before `{failed}`, which otherwise fails{why}."
        quoted = f' with "{error}"' if error else ""
        return f"If `{failed}` fails{quoted}, {self._needed('change', 'run')}."

    def _needed(self, change: str, run: str) -> str:
        """Return the edits and commands that a repair needs."""
        edits = [f"{change} {_files(self._pair)}"] if self._pair.between else []
        commands = [f"{run} {self._commands(self._pair.commands)}".strip()] if self._pair.commands else []
        return ", then ".join([*edits, *commands])

    def _commands(self, commands: Sequence[ShellCall]) -> str:
        return ", then ".join(f"`{self._first.shown(call)}`" for call in commands)

    def _evidence(self) -> Iterator[str]:
        counts = Counter(session.agent for session in self._sessions)
        agents = ", ".join(f"{agent} {count}" for agent, count in counts.most_common())
        seen = _times(len(self._sessions), "session")
        tried = self.trial if self.trial and self.trial.verdict == "proven" else None
        by_agent = f" and by {tried.agent} (grade C)" if tried else ""
        yield f"PROVEN by running (grade {self._pair.grade}){by_agent}, seen in {seen} ({agents})"
        yield from evidence_lines(self._pair, self.proof)
        if self.trial:
            yield str(self.trial)
        for sighting in self.sightings:
            if sighting.pair.said:
                started = sighting.session.run.started
                when = f"{started:%Y-%m-%d}, " if started else ""
                quote = " ".join(sighting.pair.said.split())[:_LONGEST_QUOTE]
                yield f'You said ({when}{sighting.session.agent}): "{quote}"'
                return


def digest_of(key: str) -> str:
    """Return a short name of what sightings have in common."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def remark_key(session: str, said: str) -> str:
    """Return a short name of what a person said in a session.

    Args:
        session: The key of the session, without secrets.
        said: The words, without secrets.
    """
    return digest_of(f"S\n{session}\n{short_text(said)}")


def short_text(text: str) -> str:
    """Return a text on one line, cut where it is too long.

    Args:
        text: What someone said.
    """
    squeezed = " ".join(text.split())
    return squeezed if len(squeezed) <= _LONGEST_TEXT else f"{squeezed[:_LONGEST_TEXT]} ..."


def _files(pair: CommandPair) -> str:
    names = dict.fromkeys(PurePath(edit.path).name for edit in pair.between)
    return ", ".join(f"`{name}`" for name in names)


def _times(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class _Wording(BaseModel):
    """The answer of the model."""

    lesson: str = Field(description="The lesson as one sentence, or an empty text.")


def word_with(client: LLMClientLike, lesson: Lesson, redactor: Redactor) -> str | None:
    """Return the words of a model for a lesson; None if it says that nothing is to be learned.

    Args:
        client: The model.
        lesson: What to word.
        redactor: Replaces secrets before the model sees them.

    Returns:
        The words; empty if those of the model cannot be used.
    """
    answer = client.complete_structured(lesson.prompt(redactor), _Wording)
    wording = " ".join(answer.lesson.split())
    if not wording:
        return None if lesson.sightings[0].pair.grade == "B" else ""
    return wording if lesson.accepts(wording) else ""
