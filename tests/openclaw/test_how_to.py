"""Each command of the guide, in order and as it is written, with the real OpenClaw."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

from ace.integrations import file_lock
from ace_openclaw.home import learner_lock_path
from ace_openclaw.status import learning_status
from tests.openclaw.learning_script import learn
from tests.openclaw.real import LESSON, QUESTION, OpenClawHome, openclaw_command, play
from tests.support.command_line import Done, ace
from tests.support.scripted_anthropic_server import ScriptedAnthropicServer
from tests.support.scripted_server import ScriptedServer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "learn-from-openclaw.md"
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[list[str]]:
    """Return the words of each line in the blocks of a page, without `ace`."""
    lines = [line for block in _BLOCK.findall(page.read_text(encoding="utf-8")) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def wait_for_learner(state: Path, *, sessions: int) -> None:
    """Wait until the learners that OpenClaw has started have learned from so many sessions, and have ended."""
    while True:
        status = learning_status(state)
        assert status.problems == ()
        assert status.waiting or status.sessions, "OpenClaw put no turn into the queue"
        if len(status.sessions) == sessions and not status.waiting:
            break
        time.sleep(0.1)
    with file_lock(learner_lock_path(state)):
        pass


def test_the_commands_of_the_page_work_as_they_are_written(tmp_path: Path) -> None:
    commands = commands_of(PAGE)
    assert [words[:2] for words in commands] == [
        ["openclaw", name] for name in ("install", "learn", "status", "uninstall", "install")
    ]
    install, learn_now, status, uninstall, install_learning = commands
    claw = OpenClawHome(tmp_path, tuple(openclaw_command()))
    with ScriptedAnthropicServer(play) as agents_model, ScriptedServer(learn) as server:
        environ = {"OPENAI_API_KEY": "sk-scripted-0123456789", "OPENAI_BASE_URL": server.api_base}

        def run(words: list[str]) -> Done:
            done = ace(*words, folder=tmp_path, environ=environ)
            assert done.code == 0, done.err
            return done

        claw.lay_out(agents_model.url)
        config = (claw.state / "openclaw.json").read_bytes()
        assert claw.say(QUESTION).returncode == 0
        run(install)
        assert "1 turn learned" in run(learn_now).out
        assert LESSON in (claw.workspace / "AGENTS.md").read_text(encoding="utf-8")
        assert "1 skill" in run(status).out
        run(uninstall)
        assert [path.name for path in (claw.state / "ace").iterdir()] == ["skillbook.db"]

        run(install_learning)
        claw.write_bug()
        unproven = {"ACE_UNPROVEN": "keep"}  # no call failed in this turn, so nothing proves the lesson
        assert claw.say(QUESTION, "automatic", environ={**environ, **unproven}).returncode == 0
        wait_for_learner(claw.state, sessions=2)  # the first one is in the skillbook that was kept
        assert LESSON in (claw.workspace / "AGENTS.md").read_text(encoding="utf-8")
        assert "0.5" in run(status).out
        run([*uninstall, "--delete-skills", "--yes"])
    assert (claw.state / "openclaw.json").read_bytes() == config
    assert not (claw.state / "ace").exists() and not (claw.state / "extensions").exists()
