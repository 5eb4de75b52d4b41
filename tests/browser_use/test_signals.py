"""However our process ends, its browsers end too, and their folders are removed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("chromium")

ROOT = Path(__file__).parents[2]
OF_A_RUN = ("ace-browser-", "browser_use_agent_", "org.chromium.", "browser-use-user-data-dir-")


@contextmanager
def long_run(workers: int = 1, at_end: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run `long_run` until each of its agents has made a step."""
    command = [sys.executable, "-m", "tests.browser_use.long_run", str(workers), at_end]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        agents: set[str] = set()
        while len(agents) < workers:
            line = process.stdout.readline()
            assert line.startswith("step of "), "it ended before each agent made a step"
            agents.add(line)
        try:
            yield process
        finally:
            process.kill()


def wait_until_nothing_is_left(browsers: Callable[[], list[int]], folder: Path) -> None:
    def left() -> list[object]:
        return [*browsers(), *(path for path in folder.iterdir() if path.name.startswith(OF_A_RUN))]

    while left():
        time.sleep(0.05)


@pytest.mark.parametrize(
    "signals",
    [("SIGTERM",), ("SIGKILL",), ("SIGINT", "SIGINT"), ("SIGINT", "SIGKILL")],
    ids=["terminated", "killed", "Ctrl-C twice", "killed while it cleans up"],
)
def test_a_process_that_a_signal_ends_leaves_no_browser_and_no_folder(
    signals: tuple[str, ...], browsers: Callable[[], list[int]], folder_of_browsers: Path
) -> None:
    with long_run(workers=2) as process:
        assert browsers()
        for name in signals:
            process.send_signal(getattr(signal, name))
            time.sleep(0.3)
        process.wait()
        wait_until_nothing_is_left(browsers, folder_of_browsers)


def test_a_process_that_ends_itself_without_any_cleaning_leaves_nothing(
    browsers: Callable[[], list[int]], folder_of_browsers: Path
) -> None:
    with long_run(at_end="exit") as process:
        assert process.wait() == 3
        wait_until_nothing_is_left(browsers, folder_of_browsers)


def test_one_interruption_ends_the_agents_and_closes_the_browsers_before_it_is_raised(
    browsers: Callable[[], list[int]], folder_of_browsers: Path
) -> None:
    with long_run(workers=2, at_end="interrupt") as process:
        assert process.stdout is not None
        _, signalled, rest = process.stdout.read().partition("signal\n")
        assert process.wait() == 0
    assert signalled and rest.endswith("interrupted\n")
    assert rest.count("step") <= 2, "each agent may be in one more step, and begins no other"
    wait_until_nothing_is_left(browsers, folder_of_browsers)
