"""What Claude Code calls at the start and the end of a session: `python -m ace_claude_code.sessions.hook start|end`.

The end only puts the session into the queue and starts the learner, which outlives Claude Code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ace_claude_code.guard import LEARNING_VARIABLE
from ace_claude_code.json_fields import text_in
from ace_claude_code.sessions.home import state_folder
from ace_claude_code.sessions.settings import SessionSettings, read_settings

__all__ = ["main"]

_LOG_SIZE = 1_000_000


def main(arguments: list[str], standard_input: str) -> int:
    """Handle one event.

    Args:
        arguments: `start` or `end`.
        standard_input: The event as JSON.

    Returns:
        The exit code.
    """
    # A learner that asks Claude Code ends a session, too.
    if os.environ.get(LEARNING_VARIABLE):
        return 0
    state = state_folder()
    settings = read_settings(state)
    event = json.loads(standard_input)
    if settings is None or not settings.takes(Path(os.environ.get("CLAUDE_PROJECT_DIR") or text_in(event, "cwd"))):
        return 0
    if arguments == ["start"]:
        _show_skills(event, state, settings)
    elif arguments == ["end"]:
        _hand_over(event, state)
    else:
        sys.stderr.write(f"ace: the hook is called with 'start' or 'end', not {arguments!r}\n")
        return 2
    return 0


def _show_skills(event: Mapping[str, object], state: Path, settings: SessionSettings) -> None:
    path = state / "projects" / Path(text_in(event, "transcript_path")).parent.name / "skillbook.db"
    if not path.exists():
        return
    from ace.implementations.prompts import wrap_skillbook_for_external_agent
    from ace.skillbook import Skillbook

    book = Skillbook.open(path)
    try:
        skills = wrap_skillbook_for_external_agent(book, settings.budget_tokens or None)
    finally:
        book.close()
    if skills:
        shown = {"hookEventName": "SessionStart", "additionalContext": skills}
        sys.stdout.write(json.dumps({"hookSpecificOutput": shown}))


def _hand_over(event: Mapping[str, object], state: Path) -> None:
    from ace_claude_code.sessions.jobs import Job, add_job

    add_job(state, Job(transcript=text_in(event, "transcript_path"), session_id=text_in(event, "session_id")))
    log = state / "learner.log"
    mode = "ab" if not log.exists() or log.stat().st_size < _LOG_SIZE else "wb"
    with log.open(mode) as file:
        subprocess.Popen(
            [sys.executable, "-E", "-P", "-m", "ace_claude_code.sessions.learner"],
            cwd=state,
            env={**os.environ, LEARNING_VARIABLE: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.read()))
