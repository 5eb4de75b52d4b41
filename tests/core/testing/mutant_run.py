"""Writes wrong plugins as they are once installed, and lets the kit check each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ace.cli.plugin_template import names_of_plugin, plugin_files
from tests.core.testing.correct_plugins import Edit

__all__ = ["Report", "check_plugin", "edited_files"]

# Each plugin gets a process of its own, forked from one that has loaded already what all of them need.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    [
        "pytest",
        "_pytest.faulthandler",
        "_pytest.helpconfig",
        "_pytest.junitxml",
        "_pytest.setuponly",
        "_pytest.setupplan",
        "_pytest.skipping",
        "_pytest.threadexception",
        "_pytest.unittest",
        "_pytest.unraisableexception",
        "_pytest.warnings",
        "packaging.requirements",
        "pdb",
        "ace.runners.integration",
        "ace.loop",
        "ace.roles.prompts",
        "ace.outputs",
        "ace.testing.command",
        "ace.testing.execute_step",
        "ace.testing.extra_steps",
        "ace.testing.integration",
        "ace.testing.log_reader",
        "ace.testing.models",
        "ace.testing.plugin",
        "ace.testing.runner",
        "ace.testing.store",
        "ace.testing.trace_converter",
    ]
)


# Each of these costs a process that lives for half a second a good part of its time.
UNUSED = ("cacheprovider", "doctest", "pastebin", "threadexception", "unraisableexception")


@dataclass(frozen=True)
class Report:
    """What came of the checks, by name: `PluginConformance.test_hooks`."""

    passed: frozenset[str]
    failed: dict[str, str]
    """Each with what it said."""
    skipped: dict[str, str]
    """Each with why."""


def edited_files(edits: Sequence[Edit]) -> dict[str, str]:
    """The files of the template's plugin, after all edits."""
    files = {str(path): text for path, text in plugin_files(names_of_plugin("mutant")).items()}
    for edit in edits:
        if edit.old == "*":
            files[f"src/ace_mutant/{edit.file}"] = edit.new
            continue
        [path] = [path for path in files if path.endswith(f"/{edit.file}") or path == edit.file]
        assert files[path].count(edit.old) == 1, f"{edit.old!r} is {files[path].count(edit.old)} times in {path}"
        files[path] = files[path].replace(edit.old, edit.new)
    return files


def check_plugin(edits: Sequence[Edit], folder: Path, suite: str = "") -> Report:
    """Install the plugin into a folder and run its own tests, or those of one suite."""
    files = edited_files(edits)
    for path, text in files.items():
        if path.startswith(("src/", "tests/")):
            file = folder / path.replace("src/", "site/", 1)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    write_metadata(folder / "site", files["pyproject.toml"])
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    process = _PROCESSES.Process(target=run_tests, args=(folder, suite))
    process.start()
    process.join()
    report = folder / "report.xml"
    assert report.exists(), (folder / "output.txt").read_text(encoding="utf-8")
    return read_report(report)


def run_tests(folder: Path, suite: str) -> None:
    """Run the tests of a plugin; this process is made for it."""
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "ACE_"))]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(folder)
    sys.path.insert(0, str(folder / "site"))
    chosen = ["-k", f"Test{suite}"] if suite else []
    unused = [word for name in UNUSED for word in ("-p", f"no:{name}")]
    pytest.main(["-q", *unused, *chosen, "--junitxml=report.xml", "tests"])


def write_metadata(site: Path, pyproject: str) -> None:
    """Write what an installer writes of a distribution."""
    project = tomllib.loads(pyproject)["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    required = "".join(f"Requires-Dist: {requirement}\n" for requirement in project["dependencies"])
    text = f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n{required}"
    (info / "METADATA").write_text(text, encoding="utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")


def read_report(path: Path) -> Report:
    passed: set[str] = set()
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        suite = case.get("classname", "").rpartition(".")[2].replace("Test", "", 1)
        name = f"{suite}Conformance.{case.get('name')}"
        outcome = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if outcome is None:
            passed.add(name)
        elif outcome.tag == "skipped":
            skipped[name] = outcome.get("message", "")
        else:
            failed[name] = outcome.get("message", "")
    return Report(frozenset(passed), failed, skipped)
