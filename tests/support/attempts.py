"""A log of attempts at tasks, and a scripted model that learns what they say."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ace.loop import ExecutionError, ExecutionResult, ExecutionTrace, Outcome, TraceLog
from tests.support.learning_script import learning_script
from tests.support.scripted_server import Reply, ScriptedRequest

__all__ = ["append", "attempt", "attempts_script", "log_in"]

_EVIDENCE = re.compile(r"BECAUSE (\S+)")
_script = learning_script()


def attempts_script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
    """Like the learning script, but a learning's evidence is the word after BECAUSE, and LOSE removes all skills.

    BLAME judges every skill of the prompt harmful.
    """
    if request.role == "reflector":
        answer = _script(request)
        content: Any = getattr(answer, "content", answer)
        evidence = _EVIDENCE.search(request.record)
        if isinstance(content, dict):
            for learning in content["extracted_learnings"]:
                learning["evidence"] = "" if evidence is None else evidence[1]
            if "LOSE" in request.record:
                content["extracted_learnings"].append({"learning": "LOSE everything.", "evidence": "src/a.ts"})
            if "BLAME" in request.text:
                ids = dict.fromkeys(re.findall(r"\[([\w]+-\d{5})\]", request.text))
                content["skill_tags"] = [{"id": id, "tag": "harmful"} for id in ids]
        return answer
    if request.role == "skill_manager" and "LOSE" in request.text:
        ids = dict.fromkeys(re.findall(r"\[([\w]+-\d{5})\]", request.text))
        operations = [{"type": "REMOVE", "skill_id": id, "section": "", "content": None} for id in ids]
        return {"reasoning": "", "update": {"reasoning": "", "operations": operations}}
    return _script(request)


def attempt(
    task: str, says: str, *, trace: str = "", outcome: Outcome = "failure", error: str = "No such module"
) -> ExecutionTrace:
    """Return an attempt that failed with an error in src/a.ts."""
    failed = ExecutionResult(
        runner="tsc",
        command="tsc",
        status="fail",
        errors=[ExecutionError(message=error, tool="tsc", file="src/a.ts", line=3)],
    )
    return ExecutionTrace(
        task_id=task,
        trace_id=trace or uuid.uuid4().hex,
        outcome=outcome,
        task_description=says,
        execution_results=[failed] if error else [],
    )


def log_in(folder: Path) -> TraceLog:
    """Return the log of a project."""
    return TraceLog(folder / "logs" / "execution_traces.jsonl")


def append(folder: Path, *attempts: ExecutionTrace) -> None:
    """Append attempts to the log of a project."""
    log = log_in(folder)
    for record in attempts:
        log.append(record)
