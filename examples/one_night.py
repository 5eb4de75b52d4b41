"""Creates a repository and two sessions of coding agents in the current folder, for the tutorial "One night".

The repository `shop` has a rule that its agents do not know: its tests need a variable, which `make check` sets. In one
session of Claude Code and one of Codex, the agent runs the tests directly first.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FILES = {
    "shop.py": "price = 3\n",
    "run_tests.py": "import os, sys\n"
    'if "SRC_ROOT" not in os.environ:\n'
    '    sys.exit("RuntimeError: SRC_ROOT is not set")\n'
    'print("1 passed")\n',
    "Makefile": "check:\n\t@SRC_ROOT=. python3 run_tests.py\n",
}
TASK = "Set the price to 4 and run the tests"
RAN = [("python3 run_tests.py", "RuntimeError: SRC_ROOT is not set", 1), ("make check", "1 passed", 0)]
"""The commands of both sessions, with what they printed and their exit codes."""


def create_repository(root: Path, when: datetime) -> str:
    """Create a git repository with one commit, and return that."""
    root.mkdir()
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    author = ["-c", "user.name=You", "-c", "user.email=you@example.org"]
    date = f"{when:%Y-%m-%dT%H:%M:%S+00:00}"
    for words in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--message=Begin", f"--date={date}"],
        ["rev-parse", "HEAD"],
    ):
        done = subprocess.run(
            ["git", *words],
            cwd=root,
            env={"PATH": os.environ["PATH"], "HOME": str(root), "GIT_COMMITTER_DATE": date},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout.strip()


def claude_code_session(root: Path, began: datetime) -> list[dict[str, Any]]:
    """Return the lines of a session of Claude Code, in which a person corrects the agent."""
    contents: list[tuple[str, Any]] = [("user", TASK)]
    for number, (command, output, code) in enumerate(RAN):
        if number:
            contents.append(("user", "No, never call it directly here."))
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
        text = f"Exit code {code}\n{output}" if code else output
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text, "is_error": bool(code)}
        contents += [("assistant", [call]), ("user", [result])]
    contents.append(("assistant", [{"type": "text", "text": "The price is 4, and the tests pass."}]))
    return [
        {
            "type": role,
            "uuid": f"00000000-0000-4000-8000-{number:012}",
            "parentUuid": f"00000000-0000-4000-8000-{number - 1:012}" if number else None,
            "sessionId": "11111111-1111-4111-8111-111111111111",
            "cwd": str(root),
            "gitBranch": "main",
            "version": "2.1.329",
            "timestamp": _time(began, number),
            "message": {"role": role, "content": content},
        }
        for number, (role, content) in enumerate(contents)
    ]


def codex_session(root: Path, commit: str, began: datetime) -> list[dict[str, Any]]:
    """Return the lines of a session of Codex, which names the commit."""
    id = "22222222-2222-4222-8222-222222222222"
    git = {"commit_hash": commit, "branch": "main"}
    payloads: list[tuple[str, dict[str, Any]]] = [
        (
            "session_meta",
            {"id": id, "timestamp": _time(began, 0), "cwd": str(root), "cli_version": "0.171.0", "git": git},
        ),
        ("event_msg", {"type": "user_message", "message": TASK}),
        ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}),
    ]
    for number, (command, output, code) in enumerate(RAN):
        call_id = f"call_{number}"
        arguments = json.dumps({"cmd": command})
        call = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}
        text = f"Process exited with code {code}\nOutput:\n{output}"
        payloads += [
            ("response_item", call),
            (
                "event_msg",
                {"type": "item_completed", "item": {"type": "CommandExecution", "id": call_id, "exit_code": code}},
            ),
            ("response_item", {"type": "function_call_output", "call_id": call_id, "output": text}),
        ]
    return [
        {"timestamp": _time(began, number), "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]


def _time(began: datetime, number: int) -> str:
    return f"{began + timedelta(seconds=10 * number):%Y-%m-%dT%H:%M:%S.000Z}"


def write(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Write a session."""
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Create the repository and the sessions."""
    home = Path.cwd()
    began = datetime.now(UTC) - timedelta(hours=10)
    root = home / "shop"
    if root.exists():
        print("shop and its sessions are here already")
        return
    commit = create_repository(root, began - timedelta(days=1))
    folder = "".join(letter if letter.isalnum() else "-" for letter in str(root))
    claude = home / ".claude" / "projects" / folder / "11111111-1111-4111-8111-111111111111.jsonl"
    write(claude, claude_code_session(root, began))
    began += timedelta(hours=2)
    name = f"rollout-{began:%Y-%m-%dT%H-%M-%S}-22222222-2222-4222-8222-222222222222.jsonl"
    write(home / ".codex" / "sessions" / f"{began:%Y/%m/%d}" / name, codex_session(root, commit, began))
    print("created shop, a session of Claude Code and a session of Codex")


if __name__ == "__main__":
    main()
