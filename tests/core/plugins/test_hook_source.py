"""What is read from a hook module without importing it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from ace.plugins.hook_source import HookSource, is_there, read_hook_source

HOOKS = """
from ace.plugins import CommandSpec, RunnerSpec, hookimpl
import ace.plugins
raise RuntimeError("this module must not be imported")
ACE_API: int = 1
NEEDED = ("named",)

@hookimpl
def ace_commands():
    yield CommandSpec(name="acme", target="x:y", summary="Look " "at it")

@ace.plugins.hookimpl(trylast=True)
def ace_runners():
    yield RunnerSpec(name="acme", target="x:y", requires=("acme>=2", "other"))
    yield RunnerSpec(name="acme", target="x:y", requires=NEEDED)

def ace_stores(): ...
"""
FOUND = HookSource(
    kinds=("runners", "commands"),
    api=1,
    requires=("acme>=2", "other", "named"),
    command_summary="Look at it",
    problem="ace_stores is not marked as a hook; write @hookimpl above it",
    targets=("x:y",),
    names=(("runners", "acme"), ("runners", "acme"), ("commands", "acme")),
)


@pytest.mark.parametrize("is_zipped", [False, True])
def test_kinds_api_requirements_and_summary(is_zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_zipped:
        with zipfile.ZipFile(tmp_path / "acme.zip", "w") as archive:
            archive.writestr("sample_hooks/__init__.py", "1 / 0\n")
            archive.writestr("sample_hooks/plugin.py", HOOKS)
        monkeypatch.syspath_prepend(tmp_path / "acme.zip")
    else:
        (tmp_path / "sample_hooks").mkdir()
        (tmp_path / "sample_hooks" / "__init__.py").write_text("1 / 0\n", encoding="utf-8")
        (tmp_path / "sample_hooks" / "plugin.py").write_text(HOOKS, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
    assert read_hook_source("sample_hooks.plugin") == FOUND
    assert read_hook_source("sample_hooks.plugin:something") == FOUND
    assert "sample_hooks" not in sys.modules


@pytest.mark.parametrize(
    ("source", "api"),
    [
        ("ACE_API = 2", 2),
        ("ACE_API = True", None),
        ("ACE_API = 1 + 0", None),
        ("x = 1", None),
        ("if 1:\n ACE_API = 1", None),
    ],
)
def test_the_api_is_a_plain_number(
    source: str, api: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_api.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    read = read_hook_source("sample_api")
    assert read is not None and read.api == api


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"x = 1\n\ndef (", "has a syntax error in line 3: "),
        (b"x = '\0'", "has a syntax error: "),
        (b"x = " + b"-" * 100_000 + b"1", "nested too deeply"),
        (b"# coding: nonsense\n", "cannot be read: "),
        (b"x = '\xff'", "cannot be read: "),
        (b"@hookimpl\ndef ace_comands(): ...", "'ace_comands' is not a hook, did you mean 'ace_commands'?"),
        (b"def ace_runners(): ...", "ace_runners is not marked as a hook; write @hookimpl above it"),
        (b"@pytest.hookimpl\ndef pytest_runtest(): ...", ""),
    ],
)
def test_a_source_that_cannot_work_says_why(
    source: bytes, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_broken.py").write_bytes(source)
    monkeypatch.syspath_prepend(tmp_path)
    read = read_hook_source("sample_broken")
    assert read is not None
    assert problem in read.problem and bool(problem) == bool(read.problem), read.problem


def test_a_module_that_is_not_there_is_told_and_one_without_source_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sample_single.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("sample_absent", "sample_absent.plugin", "sample_single.inner"):
        read = read_hook_source(name)
        assert read is not None and read.problem == f"its hook module {name!r} does not exist"
    assert read_hook_source("math") is None


def test_a_target_that_no_module_defines_is_told_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sample_targets"
    folder.mkdir()
    (folder / "__init__.py").write_text("1 / 0\n", encoding="utf-8")
    (folder / "steps.py").write_text(
        "from x import *\nclass A: ...\ntry:\n    import b.c as d, e.f\nexcept ImportError:\n    g: int = 1\n",
        encoding="utf-8",
    )
    (folder / "plain.py").write_text("class A:\n    class B: ...\nasync def run(): ...\n", encoding="utf-8")
    (folder / "lazy.py").write_text("def __getattr__(name): ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    there = ["plain:A", "plain:A.B", "plain:run", "lazy:Anything", "steps:Anything"]
    assert [name for name in there if not is_there(f"sample_targets.{name}")] == []
    lost = ["plain:C", "nowhere:A"]
    assert [name for name in lost if is_there(f"sample_targets.{name}")] == []
    assert "sample_targets" not in sys.modules


def test_finders_of_others_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_found.py").write_text("ACE_API = 1", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    read = read_hook_source("sample_found")
    assert read is not None and read.api == 1

    class Refusing:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            raise ModuleNotFoundError(f"no {name} here")

    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    assert read_hook_source("sample_found") is None
