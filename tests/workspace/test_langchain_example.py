"""The example runs, and learns what it promises."""

from __future__ import annotations

import pytest

from examples import learn_with_langchain

LEARNED = """\
epoch 1, with tide_table: The run failed in tools/tide_table: LookupError: there is no table of Bremen; \
the harbour master knows.
tide_table failed at 2 in tools: LookupError: there is no table of Bremen; the harbour master knows
epoch 2, with harbour_master: By [tides-00001]: High water in Bremen is at nine.
learned: [tides-00001] Ask the harbour master where there is no tide table. (helpful 1)
"""


def test_the_agent_learns_from_the_run_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    learn_with_langchain.main()
    assert capsys.readouterr().out == LEARNED
