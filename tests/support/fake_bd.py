#!/usr/bin/env python3
"""A program that behaves as `bd` 1.0.5 does, as far as ACE uses it. It keeps its issues in a JSON file.

Like the real one, it calls the hooks `on_create`, `on_update` and `on_close` in `.beads/hooks/` as `HOOK ID EVENT` with
the issue as JSON on standard input, after the change, without waiting for them, and with their output discarded. Where
the real one kills the process group of a hook after 10 seconds, this one waits for the file `FAKE_BD_KILL_FILE`: on a
busy machine, a hook may take longer.

Variables choose what it does: `FAKE_BD_VERSION` (from 2.0 on, JSON is in an envelope, as with `BD_JSON_ENVELOPE=1`),
`FAKE_BD_KILL_FILE` (a hook is killed as soon as the file exists), and `FAKE_BD_FAULT`, such as `show:hang`,
`close:nonsense` or `close:error`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

VERSION = os.environ.get("FAKE_BD_VERSION", "1.0.5")
KILL_FILE = os.environ.get("FAKE_BD_KILL_FILE")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--run-hook"]:
        return run_hook(*arguments[1:])
    options = parsed(arguments)
    play_fault(options.command)
    if options.command in ("version", "init"):
        if options.command == "version":
            print(f"bd version {VERSION} (fake)")
        else:
            Path(".beads").mkdir(exist_ok=True)
            write(Path(".beads"), {})
        return 0
    beads = beads_folder()
    with locked(beads):
        issues = read(beads)
        found = COMMANDS[options.command](issues, options)
        write(beads, issues)
    if options.command != "show":
        call_hooks(beads, options.command, found)
    if options.json:
        print_json(found)
    else:
        print("\n".join(f"{issue['id']}: {issue['title']} [{issue['status']}]" for issue in found))
    return 0


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bd")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("version")
    commands.add_parser("init").add_argument("--prefix")
    create_parser = commands.add_parser("create")
    create_parser.add_argument("title")
    create_parser.add_argument("--description", "-d", default="")
    show_parser = commands.add_parser("show")
    show_parser.add_argument("id")
    close_parser = commands.add_parser("close")
    close_parser.add_argument("ids", nargs="+")
    close_parser.add_argument("--reason", "-r", default="Closed")
    for subparser in (create_parser, show_parser, close_parser):
        subparser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def create(issues: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    issue = {
        "id": f"bd-{len(issues) + 1}",
        "title": options.title,
        "description": options.description,
        "status": "open",
        "priority": 2,
        "issue_type": "task",
        "labels": ["imports"],
        "created_at": "2026-11-01T00:00:00Z",
    }
    issues[issue["id"]] = issue
    return [issue]


def show(issues: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.id not in issues:
        fail(f"no issue found matching {options.id!r}")
    return [issues[options.id]]


def close(issues: dict[str, Any], options: argparse.Namespace) -> list[dict[str, Any]]:
    closed = [issues[id] for id in options.ids if id in issues]
    if not closed:
        fail(f"no issue found matching {options.ids[0]!r}")
    for issue in closed:
        issue |= {"status": "closed", "close_reason": options.reason}
    return closed


COMMANDS = {"create": create, "show": show, "close": close}


def play_fault(command: str) -> None:
    fault = dict(part.split(":") for part in os.environ.get("FAKE_BD_FAULT", "").split(",") if part).get(command)
    if fault == "hang":
        time.sleep(600)
    if fault == "nonsense":
        print("Everything is fine.")
        sys.exit(0)
    if fault == "error":
        fail("database is locked")
    if fault == "other":
        print_json([{"id": "--status", "title": "?"}])
        sys.exit(0)


def fail(message: str) -> NoReturn:
    print(json.dumps({"error": message}), file=sys.stderr)
    sys.exit(1)


def print_json(value: object) -> None:
    has_envelope = os.environ.get("BD_JSON_ENVELOPE") == "1" or int(VERSION.split(".")[0]) >= 2
    print(json.dumps({"schema_version": 1, "data": value} if has_envelope else value, indent=2))


def call_hooks(beads: Path, command: str, issues: list[dict[str, Any]]) -> None:
    """Start each hook in the background. This program may have ended before they begin."""
    hook = beads / "hooks" / {"create": "on_create", "close": "on_close"}[command]
    if not os.access(hook, os.X_OK):
        return
    for issue in issues:
        subprocess.Popen(
            [sys.executable, __file__, "--run-hook", str(hook), issue["id"], command, json.dumps(issue)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def run_hook(hook: str, id: str, event: str, issue: str) -> int:
    process = subprocess.Popen(
        [hook, id, event],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(issue.encode())
    while process.poll() is None:
        if KILL_FILE is not None and Path(KILL_FILE).exists():
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    return 0


def beads_folder() -> Path:
    if named := os.environ.get("BEADS_DIR"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".beads").is_dir():
            return folder / ".beads"
    fail("no beads database found; run 'bd init'")


@contextlib.contextmanager
def locked(beads: Path) -> Iterator[None]:
    with (beads / "issues.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(beads: Path) -> dict[str, Any]:
    issues: dict[str, Any] = json.loads((beads / "issues.json").read_text(encoding="utf-8"))
    return issues


def write(beads: Path, issues: dict[str, Any]) -> None:
    (beads / "issues.json").write_text(json.dumps(issues), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
