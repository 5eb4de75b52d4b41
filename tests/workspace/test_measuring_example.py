"""The example that measures learning runs, shows an effect, and writes its reports."""

import json
from pathlib import Path

from tests.workspace.test_learning_examples import run_example


def test_learning_helps_on_conventions_that_nobody_states(tmp_path: Path) -> None:
    done = run_example("examples.measure_learning", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("chance alone hardly explains that.")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["measures"][0]["difference"]["low"] > 0.5
    assert (tmp_path / "report.html").exists() and (tmp_path / "report.md").exists()
