"""Creates a `ClaudeCodeResult` from the output of the binary."""

from __future__ import annotations

from ace.json_fields import Record, list_in, text_in
from ace_claude_code.account import metrics_of_result
from ace_claude_code.conversation import read_conversation
from ace_claude_code.outcome import denials_in, problem_in_result
from ace_claude_code.process import FinishedProcess
from ace_claude_code.records import Records, TranscriptError, read_records
from ace_claude_code.result import ClaudeCodeResult
from ace_claude_code.to_trace import transcript_to_trace

__all__ = ["result_of_run"]

_LONGEST_REASON = 2000


def result_of_run(
    task: str, finished: FinishedProcess, timeout: float | None, cost_before: float = 0.0
) -> ClaudeCodeResult:
    """Return the result of a finished run.

    Args:
        task: The prompt of the task.
        finished: The finished process.
        timeout: The time limit of the run, in seconds.
        cost_before: The cost of the session before the run, if it was resumed, in US dollars.
    """
    try:
        records = read_records(finished.stdout or b"\n")
    except TranscriptError:  # it printed no events; the reason is on standard error
        records = Records((), ())
    final: Record = next((each for each in reversed(records.items) if each.get("type") == "result"), {})
    problem = _problem(finished, timeout, problem_in_result(final) if final else "", denials_in(final), bool(final))
    trace = transcript_to_trace(records.items, question=task) if records.items else {}
    counted = trace.get("metrics")
    numbers = counted if isinstance(counted, dict) and final else metrics_of_result(final)
    cost = numbers.get("cost_usd", 0.0)
    cited = trace.get("skill_ids")
    return ClaudeCodeResult(
        task=task,
        success=problem is None,
        output=text_in(trace, "answer"),
        execution_trace=text_in(trace, "reasoning"),
        returncode=finished.returncode,
        error=problem,
        session_id=read_conversation(records).session_id if records.items else "",
        turns=int(numbers.get("turns", 0)),
        input_tokens=int(numbers.get("input_tokens", 0)),
        output_tokens=int(numbers.get("output_tokens", 0)),
        # Recent releases report the cost of the whole session, older ones that of this run.
        cost_usd=cost - cost_before if cost >= cost_before else cost,
        duration_seconds=finished.seconds,
        timed_out=finished.timed_out,
        permission_denials=tuple(item for item in list_in(final, "permission_denials") if isinstance(item, dict)),
        skill_ids=tuple(str(skill_id) for skill_id in cited) if isinstance(cited, list) else (),
        events=records.items,
        skipped_lines=records.skipped_lines,
        stderr=finished.stderr,
    )


def _problem(
    finished: FinishedProcess, timeout: float | None, problem: str, denials: list[str], has_result: bool
) -> str | None:
    if finished.timed_out:
        return f"The run was stopped after {timeout:g} seconds; what it had done until then stays."
    if problem or denials:
        return " ".join([*([problem] if problem else []), *denials])
    if has_result and finished.returncode == 0:
        return None
    how = (
        f"was ended by signal {-finished.returncode}"
        if finished.returncode < 0
        else f"ended with exit code {finished.returncode}"
    )
    said = finished.stderr.strip()[-_LONGEST_REASON:] or "it said nothing on standard error"
    return f"The claude binary {how}{'' if has_result else ' and without a result'}: {said}"
