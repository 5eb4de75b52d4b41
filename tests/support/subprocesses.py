"""Run code in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys


def run_python(code: str, *, without_keys: bool = False) -> subprocess.CompletedProcess[str]:
    """Run code with the import path of this process and return what it printed; it must exit with 0."""
    environ = {name: value for name, value in os.environ.items() if not (without_keys and name.endswith("_API_KEY"))}
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done
