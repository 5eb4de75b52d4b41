"""What finding and reading an input costs grows with its length only, whatever the input contains.

All readers look at each input, those of plugins included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ace.cli.errors import UsageError
from ace.cli.inputs import gather_traces

SHORT, LONG = 10_000, 80_000
REPEATED: dict[str, Callable[[int], str]] = {
    "open lists": lambda count: "[" * count,
    "open objects": lambda count: '{"a":' * count,
    "nested lists": lambda count: "[" * count + "]" * count,
    "items": lambda count: "[1" + ",1" * count,
    "objects": lambda count: "[{}" + ",{}" * count,
    "fields": lambda count: "{" + '"a":1,' * count,
    "one key": lambda count: '{"' + "k" * count,
    "digits": lambda count: "[1" + "2" * count,
    "quotation marks": lambda count: '"' * count,
    "backslashes": lambda count: '["' + "\\" * count,
    "blanks": lambda count: "[" + " " * count,
    "lines of a bracket": lambda count: "[\n" * count,
    "lines of a role": lambda count: "user: a\n" * count,
    "columns": lambda count: "," * count + "\n" + "," * count,
    "quoted quotation marks": lambda count: 'a,b\n"' + '""' * count,
    "tags": lambda count: "<" * count,
    "addresses": lambda count: "a@" * count,
    "paths": lambda count: "/a" * count,
}


def seconds(path: Path, text: str) -> float:
    """Return the CPU seconds that it takes to find and read what is in a file."""
    path.write_text(text, encoding="utf-8")
    started = time.process_time()
    try:
        with gather_traces([str(path)]) as gathered:
            for trace in gathered.traces:
                str(trace.record)
    except UsageError:
        pass  # most of these files contain nothing to learn from
    return time.process_time() - started


@pytest.mark.parametrize("suffix", [".json", ".txt", ".csv"])
@pytest.mark.parametrize("repeated", list(REPEATED))
def test_the_cost_grows_with_the_length_only(repeated: str, suffix: str, tmp_path: Path) -> None:
    path, text_of = tmp_path / f"input{suffix}", REPEATED[repeated]
    seconds(path, "{}")  # loads the plugins
    ratios = (seconds(path, text_of(LONG)) / seconds(path, text_of(SHORT)) for _ in range(3))
    assert any(ratio < 3 * LONG / SHORT for ratio in ratios)
