"""A skillbook that a scripted model has really learned: from corrected chats, and from samples with validation.

It has what the pages show: sources, cases with results, an edit, a removal, a pin, a rollback and a failed sample.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.house_conventions import samples
from examples.scripted_conventions import script as conventions
from tests.support.command_line import Done, ace
from tests.support.corrected_chats import CODE, PAYER, TIDE, Lesson, chat, correcting_script
from tests.support.scripted_server import HttpError, Reply, Script, ScriptedRequest, ScriptedServer

__all__ = ["LESSONS", "learn_book", "script"]

LESSONS = [
    TIDE,
    PAYER,
    CODE,
    Lesson(
        "A customer wants to return opened paint. What do we say?",
        "Returns are accepted within 30 days.",
        "Not for paint: mixed or opened paint is never taken back, we offer 10 % on the next tin.",
        "We do not take back opened paint, but give 10 % on the next tin.",
        "Never take back mixed or opened paint; offer 10 % on the next tin instead.",
        "opened paint; offer",
    ),
    Lesson(
        "Which unit does the drawing for the sluice gate use?",
        "centimetres",
        "Wrong. Steel drawings are in millimetres, only timber is in centimetres.",
        "millimetres",
        "Dimension steel drawings in millimetres, and timber drawings in centimetres.",
        "steel drawings in millimetres",
    ),
    Lesson(
        "How do we address Frau Dr. Ohlsen in a letter?",
        "Dear Mrs Ohlsen,",
        "No, she goes by her title: Sehr geehrte Frau Dr. Ohlsen,",
        "Sehr geehrte Frau Dr. Ohlsen,",
        "Address people with a doctorate by their title in the first line of a letter.",
        "by their title",
    ),
    Lesson(
        "When may the crane lift the turbine?",
        "At any time during the shift.",
        "That would be an accident. Not above wind force 6, and only with two signallers.",
        "Up to wind force 6, with two signallers.",
        "Lift turbines with the crane only up to wind force 6 and with two signallers.",
        "up to wind force 6",
    ),
]


def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
    """Play all roles, for the chats and for the conventions of `examples.house_conventions`."""
    if "BROKEN RECORD" in request.text and request.role == "reflector":
        return HttpError(400, "the record cannot be read")
    if "our house" in request.text and request.role:
        return conventions(request.role, request.record)
    return _chats(request)


_chats: Script = correcting_script(*LESSONS)


def learn_book(folder: Path) -> Path:
    """Learn the book in a folder with the command line, and return its path."""
    book = folder / "skills.db"
    chats = folder / "chats"
    chats.mkdir(parents=True)
    records: list[object] = [chat(lesson) for lesson in LESSONS]
    lines = [json.dumps({"messages": record}) for record in records]
    (chats / "monday.jsonl").write_text("\n".join(lines[:4]) + "\n", encoding="utf-8")
    broken = json.dumps({"messages": [{"role": "user", "content": "BROKEN RECORD"}]})
    (chats / "tuesday.jsonl").write_text("\n".join([*lines[4:], broken]) + "\n", encoding="utf-8")
    everything = [
        {"id": sample.id, "question": sample.question, "ground_truth": sample.ground_truth} for sample in samples()
    ]
    _write(folder / "train.jsonl", [record for place, record in enumerate(everything) if place % 3])
    _write(folder / "held-out.jsonl", everything[::3])
    days = iter(range(60))

    def run(*arguments: str | Path, codes: tuple[int, ...] = (0,)) -> Done:
        """Run a command on the day after the last one, at a fixed time, so that screenshots are always the same."""
        environ = {"SOURCE_DATE_EPOCH": str(1_772_442_000 + 86_520 * next(days))}
        done = ace(*arguments, folder=folder, environ=environ)
        assert done.code in codes, (done.code, done.out, done.err)
        return done

    where: list[str | Path] = ["--skillbook", "skills.db"]
    with ScriptedServer(script) as server:
        model: list[str | Path] = [
            "--model",
            "openai/scripted",
            "--api-base",
            server.api_base,
            "--skillbook",
            "skills.db",
        ]
        run("learn", "chats/monday.jsonl", *model, "--yes")
        run("learn", "chats/tuesday.jsonl", *model, "--yes", codes=(1,))
        run("train", "train.jsonl", "--validate", "held-out.jsonl", "--validation-interval", "3", *model, "--yes")
        ids = [skill["id"] for skill in run("skillbook", "show", *where, "--json").data["skills"]]
        run("skillbook", "pin", ids[0], *where)
        run("skillbook", "edit", ids[1], "Bills above 800 euros are paid by Okafor.", *where)
        run("skillbook", "remove", ids[2], "--yes", *where)
        version = run("skillbook", "log", *where, "--json").data["version"]
        run("skillbook", "rollback", str(version - 1), "--yes", *where)
        run("skillbook", "test", *model, "--yes", codes=(0, 1))
    return book


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
