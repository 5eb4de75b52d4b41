"""The example runs, and learns what it promises; without a browser it says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples import learn_with_browser_use
from tests.browser_use.conftest import browsers, chromium, folder_of_browsers, no_browser_is_left

__all__ = ["browsers", "chromium", "folder_of_browsers", "no_browser_is_left"]  # fixtures

LEARNED = """\
epoch 1, with navigate, done: The task failed after 2 steps: by its own word, the agent did not succeed: I see no form.
epoch 2, with navigate, click, input, click, done: By the agent's own word, the task was done, in 4 steps.
learned: [cookies-00001] Accept the cookies first where a banner hides the page. (helpful 1)
"""


@pytest.mark.usefixtures("no_browser_is_left")
def test_the_agent_learns_to_get_past_the_banner(capsys: pytest.CaptureFixture[str]) -> None:
    learn_with_browser_use.main()
    assert capsys.readouterr().out == LEARNED


def test_without_a_browser_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    learn_with_browser_use.main()
    assert "Install it: apt-get install chromium (Debian)" in capsys.readouterr().out
