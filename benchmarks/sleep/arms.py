"""The methods that are compared, each of which learns from the sessions of one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.sleep.machine import Machine, Result, recorded_acts, run_command
from benchmarks.sleep.samples import Sample, Session
from benchmarks.sleep.text_model import wording_of
from tests.support.agent_sessions import Act, Replace, Said, Shell, Write
from tests.support.command_line import ACE
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

__all__ = ["ARMS", "Arm", "Learned", "Lesson"]

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Lesson:
    """Something that a method has taught the agents of a repository."""

    repository: str
    text: str
    proven: bool
    """Whether the method says that it was proven, or validated."""


@dataclass
class Learned:
    """What a method did."""

    lessons: list[Lesson] = field(default_factory=list)
    foreign: set[tuple[str, str]] = field(default_factory=set)
    """Of which repository what was learned changed which other one."""
    calls: int = 0
    seconds: float = 0.0
    nights: int = 0
    skipped: str = ""
    """Why the method could not be run."""


Learn = Callable[[Machine, str], Learned]
"""Takes the machine, and the Python that has the other method's package."""


@dataclass(frozen=True)
class Arm:
    """One method."""

    name: str
    title: str
    learn: Learn
    only_claude: bool = False
    """Whether all sessions are written as those of Claude Code."""


def _nothing(machine: Machine, python: str) -> Learned:
    return Learned()


def _rule_itself(machine: Machine, python: str) -> Learned:
    return _written(machine, lambda sample: [sample.rule], proven=False)


def _raw_memory(machine: Machine, python: str) -> Learned:
    """Write down what happened in each session: the commands with their results, the edits, and what was said."""

    def lines(sample: Sample) -> list[str]:
        root = machine.root(sample)
        return [line for session in sample.sessions for line in _remembered(session, recorded_acts(session, root))]

    return _written(machine, lines)


def _remembered(session: Session, acts: Iterable[Act]) -> Iterator[str]:
    for act in acts:
        match act:
            case Shell(code=0):
                yield f"`{act.command}` worked."
            case Shell():
                yield f"`{act.command}` failed: {act.output.splitlines()[-1]}"
            case Said():
                yield f"The user said: {act.text}"
            case Replace() | Write():
                yield f"Changed `{act.path}`."
    yield f"The answer was: {session.answer}"


def _written(machine: Machine, lines: Callable[[Sample], Sequence[str]], *, proven: bool = False) -> Learned:
    learned = Learned()
    for sample in machine.samples:
        found = list(dict.fromkeys(lines(sample)))
        (machine.root(sample) / "AGENTS.md").write_text("".join(f"- {line}\n" for line in found), encoding="utf-8")
        learned.lessons += [Lesson(sample.name, line, proven) for line in found]
    return learned


def _ace_without_model(machine: Machine, python: str) -> Learned:
    return _nights(machine, ["--no-model"], {})


def _ace_with_model(machine: Machine, python: str) -> Learned:
    """Run `ace sleep` with a scripted model, which words the lessons."""

    def script(request: ScriptedRequest) -> Mapping[str, str]:
        return {"lesson": wording_of(request.text)}

    with ScriptedServer(script) as server:
        environ = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "none"}
        return _nights(machine, ["--yes"], environ)


def _nights(machine: Machine, options: Sequence[str], environ: Mapping[str, str]) -> Learned:
    """Run `ace sleep` night after night until it proposes nothing, and accept all that `ace review` lists."""
    learned = Learned()
    before = _states(machine)
    while True:
        began = time.monotonic()
        night = _ace(machine, machine.folder, environ, "sleep", "--json", *options)
        learned.seconds += time.monotonic() - began
        learned.nights += 1
        learned.calls += night["calls"]
        _note_foreign(learned, machine, before, "")
        if not night["lessons"]:
            return learned
        proposed = {Path(lesson["project"]).name for lesson in night["lessons"]}
        for sample in [sample for sample in machine.samples if sample.name in proposed]:
            before = _states(machine)
            learned.lessons += _accepted(machine, sample, environ)
            _note_foreign(learned, machine, before, sample.name)
        before = _states(machine)


def _accepted(machine: Machine, sample: Sample, environ: Mapping[str, str]) -> Iterator[Lesson]:
    """Accept what `ace review` lists in a repository."""
    root = machine.root(sample)
    for pending in _ace(machine, root, environ, "review", "--json")["pending"]:
        _ace(machine, root, environ, "review", "--json", "--accept", pending["id"])
        yield Lesson(sample.name, pending["content"], "PROVEN" in json.dumps(pending))


def _ace(machine: Machine, folder: Path, environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    home = {"HOME": str(machine.home), "XDG_CONFIG_HOME": str(machine.home / ".config")}
    done = subprocess.run(
        [ACE, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **home, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _states(machine: Machine) -> dict[str, str]:
    return {sample.name: machine.state(sample) for sample in machine.samples}


def _note_foreign(learned: Learned, machine: Machine, before: Mapping[str, str], own: str) -> None:
    """Remember which repositories were changed other than the one that something was learned in."""
    after = _states(machine)
    learned.foreign |= {(own, name) for name in after if name != own and after[name] != before[name]}


def _skillopt_as_documented(machine: Machine, python: str) -> Learned:
    return _skillopt(machine, python, lambda root: [])


def _skillopt_at_best(machine: Machine, python: str) -> Learned:
    def options(root: Path) -> list[str]:
        skill = root / ".claude" / "skills" / "learned" / "SKILL.md"
        return ["--backend", "claude", "--target-skill-path", str(skill), "--lookback-hours", "0"]

    return _skillopt(machine, python, options)


def _skillopt(machine: Machine, python: str, options: Callable[[Path], Sequence[str]]) -> Learned:
    """Run SkillOpt-Sleep in each repository, and adopt what it stages. Its `claude` is the scripted model."""
    if run_command(f"'{python}' -c 'import skillopt_sleep'", machine.folder).code:
        return Learned(skipped=f"{python} has no skillopt")
    learned = Learned()
    calls = machine.folder / "calls"
    calls.write_text("", encoding="utf-8")
    shim = machine.folder / "bin" / "claude"
    shim.parent.mkdir()
    words = f"cd '{_ROOT}' && exec '{sys.executable}' -m benchmarks.sleep.text_model"
    shim.write_text(f'#!/bin/sh\necho >> "{calls}"\n{words} "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    for sample in machine.samples:
        root, before = machine.root(sample), _states(machine)
        began = time.monotonic()
        report = json.loads(_skillopt_sleep(machine, python, root, "run", *options(root)).output)
        learned.seconds += time.monotonic() - began
        _skillopt_sleep(machine, python, root, "adopt")
        learned.nights = 1
        learned.lessons += [Lesson(sample.name, edit["content"], report["accepted"]) for edit in report["edits"]]
        _note_foreign(learned, machine, before, sample.name)
    learned.calls = len(calls.read_text(encoding="utf-8").splitlines())
    return learned


def _skillopt_sleep(machine: Machine, python: str, root: Path, command: str, *options: str) -> Result:
    done = subprocess.run(
        [python, "-m", "skillopt_sleep", command, "--project", str(root), "--json", *options],
        cwd=root,
        env={"PATH": f"{machine.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(machine.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or (command == "run" and done.returncode):
        raise RuntimeError(f"skillopt_sleep {command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return Result(done.returncode, done.stdout)


ARMS: Final = [
    Arm("nothing", "nothing", _nothing),
    Arm("raw-memory", "raw memory", _raw_memory),
    Arm("skillopt", "SkillOpt-Sleep, as documented", _skillopt_as_documented),
    Arm("skillopt-best", "SkillOpt-Sleep, best case", _skillopt_at_best, only_claude=True),
    Arm("ace-no-model", "`ace sleep --no-model`", _ace_without_model),
    Arm("ace", "`ace sleep`, a model words", _ace_with_model),
    Arm("rule", "the rule itself", _rule_itself),
]
