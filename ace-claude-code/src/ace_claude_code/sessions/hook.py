"""The hooks that Claude Code calls in a session: `python -m ace_claude_code.sessions.hook start|prompt|end`.

The hook at the end only adds the session to the queue and starts the learner, which outlives Claude Code. It and the
hook at the start also search for sessions without an end, because Claude Code was killed or the power failed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from ace.integrations import LEARNING_VARIABLE, JobQueue, text_in
from ace_claude_code.sessions.home import LEARNER_MODULE, OWN_COMMAND, skillbook_path, state_folder
from ace_claude_code.sessions.open_sessions import (
    PRIVATE_VARIABLE,
    OpenSession,
    forget_open_session,
    is_private_session,
    note_open_session,
    note_private_session,
    note_shown_skills,
    open_session,
    queue_lost_sessions,
)
from ace_claude_code.sessions.settings import SessionSettings, SettingsError, read_settings

__all__ = ["main"]
from ace_claude_code.sessions.stored import key_of_project

_MOST_FOR_PROMPT = 5


class _HookError(Exception):
    """A problem because of which a hook cannot continue."""


def main(arguments: list[str], standard_input: str) -> int:
    """Handle one event.

    Args:
        arguments: `start`, `prompt` or `end`.
        standard_input: The event as JSON.

    Returns:
        The exit code.
    """
    # A learner that uses Claude Code ends a session, too.
    if os.environ.get(LEARNING_VARIABLE):
        return 0
    if arguments not in (["start"], ["prompt"], ["end"]):
        sys.stderr.write(f"ace: the hook is called with 'start', 'prompt' or 'end', not {arguments!r}\n")
        return 2
    try:
        event = _event(standard_input)
        state = state_folder()
        settings = read_settings(state)
        if settings is None or not settings.takes(_folder_of(event)):
            return 0
        if arguments == ["start"]:
            _begin(event, state)
            _show_skills(event, state, settings)
        elif arguments == ["prompt"]:
            _show_fitting_skills(event, state)
        else:
            _hand_over(event, state)
    except (_HookError, SettingsError, OSError) as error:  # the session continues; Claude Code shows the sentence
        sys.stderr.write(f"ace: {error}\n")
        return 1
    return 0


def _event(standard_input: str) -> Mapping[str, object]:
    try:
        event = json.loads(standard_input)
    except ValueError as error:
        raise _HookError(f"Claude Code gave no event on standard input: {error}") from None
    if not isinstance(event, dict):
        raise _HookError(f"Claude Code gave no event on standard input, but {standard_input[:80]!r}")
    return event


def _folder_of(event: Mapping[str, object]) -> Path:
    """Return the folder in which the session was started; the agent may have changed its folder."""
    return Path(os.environ.get("CLAUDE_PROJECT_DIR") or text_in(event, "cwd"))


def _show_skills(event: Mapping[str, object], state: Path, settings: SessionSettings) -> None:
    path = skillbook_path(state, key_of_project(_folder_of(event)))
    if not path.exists():
        return
    from ace.integrations import extract_cited_skill_ids, wrap_skillbook_for_external_agent
    from ace.skillbook import Skillbook, SkillbookError

    try:
        with Skillbook.open(path) as book:
            skills = wrap_skillbook_for_external_agent(book, settings.budget_tokens or None)
    except SkillbookError as error:
        raise _HookError(f"no skills are shown: {error}") from error
    if skills:
        note_shown_skills(state, text_in(event, "session_id"), extract_cited_skill_ids(skills))
        _give("SessionStart", skills)


def _show_fitting_skills(event: Mapping[str, object], state: Path) -> None:
    """Show the skills that fit a prompt, and newly pinned ones, unless the session has already got them."""
    prompt = text_in(event, "prompt")
    session = open_session(state, text_in(event, "session_id"))
    path = skillbook_path(state, key_of_project(_folder_of(event)))
    if session is None or not path.exists() or prompt.startswith(OWN_COMMAND):
        return
    from ace.skillbook import SkillbookError, SkillSearch

    seen = frozenset(session.shown_skill_ids)
    try:
        with closing(SkillSearch(path)) as search:
            shown = [*search.pinned(besides=seen), *search.best(prompt, _MOST_FOR_PROMPT, besides=seen)]
    except SkillbookError as error:
        raise _HookError(f"no skills are shown: {error}") from error
    if shown:
        note_shown_skills(state, session.session_id, [skill.id for skill in shown])
        lines = "\n".join(f"- [{skill.id}] {skill.content}" for skill in shown)
        _give("UserPromptSubmit", f"These strategies from earlier sessions may fit this prompt as well:\n{lines}")


def _give(event: str, text: str) -> None:
    """Print the text that Claude Code is to add to the conversation."""
    sys.stdout.write(json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}))


def _begin(event: Mapping[str, object], state: Path) -> None:
    """Record that a session is open, and start learning from lost sessions and those that failed before."""
    queue_lost_sessions(state, besides=text_in(event, "session_id"))
    session_id = text_in(event, "session_id")
    if os.environ.get(PRIVATE_VARIABLE) and session_id:
        note_private_session(state, session_id)
        return
    opened = OpenSession(text_in(event, "transcript_path"), session_id, os.getppid())
    note_open_session(state, opened)
    _start_learner(JobQueue(state))


def _hand_over(event: Mapping[str, object], state: Path) -> None:
    transcript, session_id = text_in(event, "transcript_path"), text_in(event, "session_id")
    queue_lost_sessions(state, besides=session_id)
    is_private = is_private_session(state, session_id) or bool(os.environ.get(PRIVATE_VARIABLE))
    if Path(transcript).is_file() and not is_private:  # otherwise it is not stored, such as a session without a prompt
        JobQueue(state).add({"transcript": transcript, "session_id": session_id})
    forget_open_session(state, session_id)
    _start_learner(JobQueue(state))


def _start_learner(queue: JobQueue) -> None:
    if queue.waiting():
        queue.start_learner(LEARNER_MODULE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.read()))
