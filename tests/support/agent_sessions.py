"""A machine with git repositories, and with sessions of coding agents in the formats in which these store them."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

COMMITTED = datetime(2026, 11, 20, 9, tzinfo=UTC)
BEGAN = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""When sessions begin: after the first commit."""

RULE = "SRC_ROOT is not set"
CHECK = f"""\
import os, sys
if "SRC_ROOT" not in os.environ:
    sys.exit("RuntimeError: {RULE}")
print("1 passed")
"""
SHOP = {"run_tests.py": CHECK, "Makefile": "check:\n\t@SRC_ROOT=. python3 run_tests.py\n", "shop.py": "price = 3\n"}
"""A repository with a hidden rule: the tests fail when they are run directly."""
TASK = "Make the tests green"
DIRECTLY, RIGHT = "python3 run_tests.py", "make check"


@dataclass
class Repo:
    """A git repository."""

    root: Path

    def git(self, *arguments: str, when: datetime = COMMITTED) -> str:
        """Run git, and return what it printed."""
        stamp = f"{int(when.timestamp())} +0000"
        names = {f"GIT_{who}_{what}": "dev" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **names, **dates}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str], when: datetime = COMMITTED) -> str:
        """Write files and commit them; return the commit."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change", when=when)
        return self.git("rev-parse", "HEAD")

    def bytes(self) -> dict[str, bytes]:
        """Return everything in the working tree and what git keeps about it, to compare it later."""
        return {str(path): path.read_bytes() for path in sorted(self.root.rglob("*")) if path.is_file()}


def new_repo(root: Path, files: Mapping[str, str] = SHOP, when: datetime = COMMITTED) -> Repo:
    """Create a repository with one commit."""
    root.mkdir(parents=True)
    repo = Repo(root)
    repo.git("init", "--quiet", "--initial-branch=main")
    repo.commit(files, when)
    return repo


@dataclass(frozen=True)
class Shell:
    """A command that the agent ran, with what it printed."""

    command: str
    output: str = ""
    code: int = 0


@dataclass(frozen=True)
class Replace:
    """An edit that the agent made."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Write:
    """A new file that the agent wrote."""

    path: str
    text: str


@dataclass(frozen=True)
class Said:
    """What the person said."""

    text: str


@dataclass(frozen=True)
class Answered:
    """What the agent said."""

    text: str


@dataclass(frozen=True)
class Read:
    """A file that the agent read."""

    path: str


@dataclass(frozen=True)
class Rejected:
    """A command or an edit that the person rejected, perhaps with a reason."""

    wanted: Shell | Replace
    why: str = ""


Act = Shell | Replace | Write | Said | Answered | Read | Rejected
REJECTED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
WRONG = Shell(DIRECTLY, f"RuntimeError: {RULE}", 1)
MISTAKE: Sequence[Act] = (WRONG, Shell(RIGHT, "1 passed"))


@dataclass
class ClaudeSession:
    """Writes a session of Claude Code."""

    home: Path
    cwd: Path
    began: datetime = BEGAN
    branch: str = "main"
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    task: str = TASK
    answer: str = "Done."
    pause: timedelta = timedelta(seconds=1)
    """The time between two lines."""

    def write(self, *acts: Act) -> Path:
        lines: list[dict[str, Any]] = []

        def add(kind: str, content: object, **more: object) -> None:
            above = lines[-1]["uuid"] if lines else None
            common = {"sessionId": self.id, "cwd": str(self.cwd), "gitBranch": self.branch, "version": "2.1.329"}
            message = {"role": kind, "content": content, **({"model": "m"} if kind == "assistant" else {})}
            when = (self.began + len(lines) * self.pause).isoformat().replace("+00:00", "Z")
            ids = {"uuid": str(uuid.uuid4()), "parentUuid": above, "isSidechain": False}
            lines.append({"type": kind, "message": message, "timestamp": when, **ids, **common, **more})

        def call(id: str, act: Shell | Replace | Write | Read) -> None:
            add("assistant", [self._call(id, act)])

        add("user", self.task)
        for number, act in enumerate(acts):
            id = f"toolu_{number}"
            match act:
                case Said():
                    add("user", act.text)
                case Answered():
                    add("assistant", [{"type": "text", "text": act.text}])
                case Shell():
                    call(id, act)
                    text = f"Exit code {act.code}\n{act.output}" if act.code else act.output
                    result = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": bool(act.code)}
                    add("user", [result])
                case Replace() | Write() | Read():
                    call(id, act)
                    add("user", [{"type": "tool_result", "tool_use_id": id, "content": "done"}])
                case Rejected():
                    call(id, act.wanted)
                    text = REJECTED + (f" To tell you how to proceed, the user said:\n{act.why}" if act.why else "")
                    result = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": True}
                    more = {"toolUseResult": "User rejected tool use", "toolDenialKind": "user-rejected"}
                    add("user", [result], **more)
        add("assistant", [{"type": "text", "text": self.answer}])
        folder = self.home / ".claude" / "projects" / "".join(c if c.isalnum() else "-" for c in str(self.cwd))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.id}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return path

    def _call(self, id: str, act: Shell | Replace | Write | Read) -> dict[str, Any]:
        path = "" if isinstance(act, Shell) else str(self.cwd / act.path)
        match act:
            case Shell():
                name, given = "Bash", {"command": act.command}
            case Replace():
                name, given = "Edit", {"file_path": path, "old_string": act.old, "new_string": act.new}
            case Write():
                name, given = "Write", {"file_path": path, "content": act.text}
            case Read():
                name, given = "Read", {"file_path": path}
        return {"type": "tool_use", "id": id, "name": name, "input": given}


def codex_call(id: str, act: Shell | Replace | Write | Read) -> dict[str, Any]:
    """Return the call of a tool in a rollout of Codex CLI."""
    if isinstance(act, Replace | Write):
        return {"type": "custom_tool_call", "name": "apply_patch", "input": _patch(act), "call_id": id}
    arguments = json.dumps({"cmd": act.command if isinstance(act, Shell) else f"cat {act.path}"})
    return {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": id}


@dataclass
class CodexSession:
    """Writes a rollout of Codex CLI, which names the commit."""

    home: Path
    cwd: Path
    commit: str
    began: datetime = BEGAN
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    task: str = TASK
    answer: str = ""
    pause: timedelta = timedelta(seconds=1)
    """The time between two lines."""

    def write(self, *acts: Act) -> Path:
        lines: list[dict[str, Any]] = []

        def add(kind: str, payload: dict[str, Any]) -> None:
            when = (self.began + len(lines) * self.pause).isoformat().replace("+00:00", "Z")
            lines.append({"timestamp": when, "type": kind, "payload": payload})

        meta = {"id": self.id, "timestamp": self.began.isoformat(), "cwd": str(self.cwd), "originator": "codex_exec"}
        add("session_meta", {**meta, "cli_version": "0.171.0", "git": {"commit_hash": self.commit, "branch": "main"}})

        def say(text: str) -> None:
            add("event_msg", {"type": "user_message", "message": text})
            content = [{"type": "input_text", "text": text}]
            add("response_item", {"type": "message", "role": "user", "content": content})

        def give(id: str, act: Shell | Replace | Write | Read, output: str) -> None:
            kind = "custom_tool_call_output" if isinstance(act, Replace | Write) else "function_call_output"
            add("response_item", {"type": kind, "call_id": id, "output": output})

        say(self.task)
        for number, act in enumerate(acts):
            id = f"call_{number}"
            match act:
                case Said():
                    say(act.text)
                case Answered():
                    content = [{"type": "output_text", "text": act.text}]
                    add("response_item", {"type": "message", "role": "assistant", "content": content})
                case Shell():
                    add("response_item", codex_call(id, act))
                    item = {"type": "CommandExecution", "id": id, "exit_code": act.code}
                    add("event_msg", {"type": "item_completed", "item": item})
                    code = f"Wall time: 0.1 seconds\nProcess exited with code {act.code}\nOutput:\n"
                    give(id, act, code + act.output)
                case Replace() | Write() | Read():
                    add("response_item", codex_call(id, act))
                    give(id, act, "Success.")
                case Rejected():
                    add("response_item", codex_call(id, act.wanted))
                    what = "patch" if isinstance(act.wanted, Replace) else "exec command"
                    give(id, act.wanted, f"{what} rejected by user")
                    if act.why:
                        say(act.why)
        if self.answer:
            content = [{"type": "output_text", "text": self.answer}]
            add("response_item", {"type": "message", "role": "assistant", "content": content})
        day = self.home / ".codex" / "sessions" / f"{self.began:%Y/%m/%d}"
        day.mkdir(parents=True, exist_ok=True)
        path = day / f"rollout-{self.began:%Y-%m-%dT%H-%M-%S}-{self.id}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return path


def _patch(act: Replace | Write) -> str:
    """Return a change as Codex makes it."""
    if isinstance(act, Write):
        added = "".join(f"+{line}\n" for line in act.text.splitlines())
        return f"*** Begin Patch\n*** Add File: {act.path}\n{added}*** End Patch"
    body = "".join(f"-{line}\n" for line in act.old.splitlines())
    body += "".join(f"+{line}\n" for line in act.new.splitlines())
    return f"*** Begin Patch\n*** Update File: {act.path}\n@@\n{body}*** End Patch"
