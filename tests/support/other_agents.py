"""Sessions of coding agents in the formats in which they store them, each written by a small function."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.agent_sessions import BEGAN, TASK, Read, Replace, Said, Shell

__all__ = ["WRITERS", "Act", "Writer"]

Act = Shell | Replace | Read | Said
Fields = dict[str, Any]
Writer = Callable[..., Path]


def _time(number: int) -> str:
    return (BEGAN + timedelta(seconds=number)).isoformat().replace("+00:00", "Z")


def _lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def _call(
    act: Shell | Replace | Read, cwd: Path, names: Sequence[str], edit: Sequence[str], read: str
) -> tuple[str, Fields]:
    """Return the name and the arguments of a call.

    Args:
        names: The names of the tools that run a command, change a file, and read one.
        edit: The arguments of a change: the path, the old text and the new one.
        read: The argument with the path of what is read.
    """
    shell, replace, look = names
    match act:
        case Shell():
            return shell, {"command": act.command}
        case Replace():
            return replace, dict(zip(edit, (str(cwd / act.path), act.old, act.new), strict=True))
        case Read():
            return look, {read: str(cwd / act.path)}


def _output(act: Act) -> str:
    return act.output if isinstance(act, Shell) else "done"


def _code(act: Act) -> int:
    return act.code if isinstance(act, Shell) else 0


def qwen(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of Qwen Code."""
    records: list[Fields] = []

    def add(kind: str, parts: list[Fields], **more: object) -> None:
        above = records[-1]["uuid"] if records else None
        number = len(records)
        common = {"uuid": f"u{number}", "parentUuid": above, "sessionId": "q1", "timestamp": _time(number)}
        role = "model" if kind == "assistant" else "user"
        message = {"role": role, "parts": parts}
        records.append({**common, "cwd": str(cwd), "version": "0.15.10", "type": kind, "message": message, **more})

    add("user", [{"text": TASK}])
    for number, act in enumerate(acts):
        if isinstance(act, Said):
            add("user", [{"text": act.text}])
            continue
        names = ("run_shell_command", "edit", "read_file")
        name, given = _call(act, cwd, names, ("file_path", "old_string", "new_string"), "file_path")
        id, text = f"call_{number}", _output(act)
        if isinstance(act, Shell):
            text = f"Command: {act.command}\nDirectory: (root)\nOutput: {text}\nError: (none)\nExit Code: {act.code}"
        add("assistant", [{"functionCall": {"id": id, "name": name, "args": given}}], model="m")
        answer = {"id": id, "name": name, "response": {"output": text}}
        add("tool_result", [{"functionResponse": answer}], toolCallResult={"callId": id, "status": "success"})
    add("assistant", [{"text": "Done."}], model="m")
    return _lines(home / ".qwen" / "projects" / "-shop" / "chats" / "q1.jsonl", records)


def copilot(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of Copilot CLI."""
    records: list[Fields] = []

    def add(kind: str, **data: object) -> None:
        number = len(records)
        above = f"e{number - 1}" if number else None
        records.append({"type": kind, "id": f"e{number}", "parentId": above, "timestamp": _time(number), "data": data})

    add("session.start", sessionId="s", copilotVersion="1.0.102", context={"cwd": str(cwd), "branch": "main"})
    add("user.message", content=TASK)
    for number, act in enumerate(acts):
        if isinstance(act, Said):
            add("user.message", content=act.text)
            continue
        name, given = _call(act, cwd, ("bash", "edit", "view"), ("path", "old_str", "new_str"), "path")
        id = f"call_{number}"
        add("assistant.message", content="", toolRequests=[{"toolCallId": id, "name": name, "arguments": given}])
        add("tool.execution_start", toolCallId=id, toolName=name, arguments=given)
        text = _output(act)
        more: Fields = {}
        if isinstance(act, Shell):
            text += f"\n<shellId: 0 completed with exit code {act.code}>"
            more = {"shellExecution": {"exitCode": act.code}}
        add("tool.execution_complete", toolCallId=id, success=True, result={"content": text}, **more)
    add("assistant.message", content="Done.", toolRequests=[])
    return _lines(home / ".copilot" / "session-state" / "s" / "events.jsonl", records)


def cursor(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a transcript of Cursor, which only the name of its folder says where it ran."""
    records: list[Fields] = []

    def add(role: str, *content: Fields) -> None:
        records.append({"role": role, "message": {"content": list(content)}})

    def say(text: str) -> None:
        add("user", {"type": "text", "text": f"<user_query>\n{text}\n</user_query>"})

    say(TASK)
    for number, act in enumerate(acts):
        if isinstance(act, Said):
            say(act.text)
            continue
        name, given = _call(act, cwd, ("Shell", "StrReplace", "Read"), ("path", "old_string", "new_string"), "path")
        id = f"toolu_{number}"
        add("assistant", {"type": "tool_use", "id": id, "name": name, "input": given})
        result = {"type": "tool_result", "tool_use_id": id, "content": _output(act), "is_error": bool(_code(act))}
        add("user", result)
    add("assistant", {"type": "text", "text": "Done."})
    folder = re.sub("[^A-Za-z0-9]+", "-", str(cwd)).strip("-")
    transcripts = home / ".cursor" / "projects" / folder / "agent-transcripts"
    return _lines(transcripts / "c1" / "c1.jsonl", records)


def _pi_entries(cwd: Path, acts: Sequence[Act], shell: str, *, is_flagged: bool) -> list[Fields]:
    """Return the entries of Pi, which flags a command that failed; OpenClaw only records its exit code."""
    records: list[Fields] = [
        {"type": "session", "version": 3, "id": "p1", "timestamp": _time(0), "cwd": str(cwd)},
    ]

    def add(**message: object) -> None:
        number = len(records)
        above = f"a{number - 1}" if number > 1 else None
        common = {"type": "message", "id": f"a{number}", "parentId": above, "timestamp": _time(number)}
        records.append({**common, "message": message})

    def text(words: str) -> list[Fields]:
        return [{"type": "text", "text": words}]

    add(role="user", content=text(TASK))
    for number, act in enumerate(acts):
        if isinstance(act, Said):
            add(role="user", content=text(act.text))
            continue
        name, given = _call(act, cwd, (shell, "edit", "read"), ("path", "oldText", "newText"), "path")
        id, printed = f"call_{number}", _output(act)
        if _code(act):
            printed += f"\n\n\nCommand exited with code {_code(act)}"
        call = {"type": "toolCall", "id": id, "name": name, "arguments": given}
        add(role="assistant", content=[call], model="m", stopReason="toolUse")
        result: Fields = {"isError": bool(_code(act))} if is_flagged else {"isError": False, "details": _details(act)}
        add(role="toolResult", toolCallId=id, toolName=name, content=text(printed), **result)
    add(role="assistant", content=text("Done."), model="m", stopReason="stop")
    return records


def _details(act: Act) -> Fields:
    return {"status": "completed", "exitCode": act.code} if isinstance(act, Shell) else {}


def pi(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of Pi."""
    folder = home / ".pi" / "agent" / "sessions" / "--shop--"
    return _lines(folder / "2026-11-20T12-00-00-000Z_p1.jsonl", _pi_entries(cwd, acts, "bash", is_flagged=True))


def openclaw(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of OpenClaw."""
    entries = _pi_entries(cwd, acts, "exec", is_flagged=False)
    return _lines(home / ".openclaw" / "agents" / "main" / "sessions" / "p1.jsonl", entries)


def _goose_messages(cwd: Path, acts: Sequence[Act]) -> list[Fields]:
    messages: list[Fields] = []

    def add(role: str, block: Fields) -> None:
        messages.append({"role": role, "created": int(BEGAN.timestamp()) + len(messages), "content": [block]})

    add("user", {"type": "text", "text": TASK})
    for number, act in enumerate(acts):
        if isinstance(act, Said):
            add("user", {"type": "text", "text": act.text})
            continue
        editor = "developer__text_editor"
        names = ("developer__shell", editor, editor)
        name, given = _call(act, cwd, names, ("path", "old_str", "new_str"), "path")
        if name == editor:
            given = {"command": "view" if isinstance(act, Read) else "str_replace", **given}
        id = f"call_{number}"
        asked = {"status": "success", "value": {"name": name, "arguments": given}}
        add("assistant", {"type": "toolRequest", "id": id, "toolCall": asked})
        value = {"content": [{"type": "text", "text": _output(act)}], "isError": bool(_code(act))}
        add("user", {"type": "toolResponse", "id": id, "toolResult": {"status": "success", "value": value}})
    add("assistant", {"type": "text", "text": "Done."})
    return messages


def goose_file(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of an older version of Goose."""
    messages = _goose_messages(cwd, acts)
    first = {"working_dir": str(cwd), "description": "shop", "message_count": len(messages)}
    return _lines(home / ".local" / "share" / "goose" / "sessions" / "20261120_120000.jsonl", [first, *messages])


def goose(home: Path, cwd: Path, *acts: Act) -> Path:
    """Write a session of Goose."""
    path = home / ".local" / "share" / "goose" / "sessions" / "sessions.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE sessions (id TEXT, session_type TEXT, created_at TEXT, working_dir TEXT)")
        connection.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,"
            " created_timestamp INTEGER, metadata_json TEXT)"
        )
        connection.execute("INSERT INTO sessions VALUES ('1', 'user', '2026-11-20', ?)", [str(cwd)])
        for message in _goose_messages(cwd, acts):
            row = (message["role"], json.dumps(message["content"]), message["created"])
            connection.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp, metadata_json)"
                " VALUES ('1', ?, ?, ?, '{}')",
                row,
            )
    return path


WRITERS: Mapping[str, Writer] = {
    "Qwen Code": qwen,
    "Copilot CLI": copilot,
    "Cursor agent transcripts": cursor,
    "OpenClaw": openclaw,
    "Pi": pi,
    "Goose": goose,
    "Goose, older": goose_file,
}
"""The writers by the titles of the agents."""
