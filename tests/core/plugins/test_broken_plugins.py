"""A plugin that raises is named and disabled for the process, and no other plugin is affected."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import command_environment

HOOKS = """
from ace.plugins import ObserverSpec, RunnerSpec, hookimpl
ACE_API = 1
{before}
@hookimpl
def ace_runners():
    {inside}
    yield RunnerSpec(name="broken", target="{target}")
"""
COUNTED = "print('called'); "
ASK = """
from ace.plugins import PluginError, get_runner, list_plugins
for _ in range(2):
    try:
        get_runner("broken")
    except PluginError as error:
        print(type(error).__name__, error)
print(get_runner("good").__name__)
print([info.status for name in ('broken', 'good') for info in list_plugins(name)])
"""


def printed(folder: Path, code: str, **modules: str) -> list[str]:
    """Run code where `broken` and `good` are installed plugins, and the other modules can be imported."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    for name in ("broken", "good"):
        info = folder / f"ace_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ace-{name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[ace.plugins]\n{name} = {name}_hooks\n", encoding="utf-8")
    good = HOOKS.format(before="", inside="", target="ace.runners:TraceAnalyser").replace('"broken"', '"good"')
    (folder / "good_hooks.py").write_text(good, encoding="utf-8")
    environ = command_environment(folder, {"PYTHONPATH": str(folder), "ACE_PLUGINS": "broken,good"})
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("place", "raised", "shown"),
    [
        ("import", "SystemExit(3)", "SystemExit: 3"),
        ("hook", "ValueError('no')", "ValueError: no"),
        ("target", "type('Own', (BaseException,), {})('x')", "Own: x"),
    ],
)
def test_what_raises_is_called_once_and_named_each_time(place: str, raised: str, shown: str, tmp_path: Path) -> None:
    code = f"{COUNTED}raise {raised}"
    hooks = HOOKS.format(
        before=code if place == "import" else "",
        inside=code if place == "hook" else "",
        target="broken_target:Runner" if place == "target" else "ace.runners:ACE",
    )
    called, *errors, good, statuses = printed(tmp_path, ASK, broken_hooks=hooks, broken_target=code)
    failure = {
        "import": "its hook module 'broken_hooks' cannot be imported",
        "hook": "ace_runners failed",
        "target": "'broken_target:Runner' cannot be imported",
    }[place]
    assert called == "called"
    assert len(errors) == 2 and errors[0] == errors[1]
    assert errors[0].startswith(f"PluginLoadError plugin 'broken' of ace-broken 1.0: {failure}: {shown}")
    assert good == "TraceAnalyser"
    assert statuses == ("['ok', 'ok']" if place == "target" else "['error', 'ok']")


def test_a_missing_framework_may_be_installed_later(tmp_path: Path) -> None:
    hooks = HOOKS.format(before="", inside="", target="broken_target:Runner")
    install = f"from pathlib import Path; Path({str(tmp_path)!r}, 'late_framework.py').write_text('')\n"
    again = "import importlib; importlib.invalidate_caches(); print(get_runner('broken'))"
    target = "import late_framework\nRunner = dict\n"
    lines = printed(tmp_path, ASK + install + again, broken_hooks=hooks, broken_target=target)
    assert lines[0].startswith("MissingFrameworkError plugin 'broken' of ace-broken 1.0: 'broken_target:Runner' needs")
    assert lines[-1] == "<class 'dict'>"
