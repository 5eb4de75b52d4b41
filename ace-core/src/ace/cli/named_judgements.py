"""Lets the model name the judgements of people in logs, and shows which of them are accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ace.calls.model_calls import redactor_for
from ace.cases import CheckedJudgement, checked_judgements, corrections_of, messages_of, redacted_messages, replies_in
from ace.cli.console import counted, note, print_json, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.inputs import FoundRuns, run_filter
from ace.cli.inspection import cost_told
from ace.cli.model_choice import chosen_model, client_from_settings, model_and_place
from ace.cli.questions import can_ask, says_yes
from ace.cli.settings import Settings
from ace.logs import Problem
from ace.logs.trace import StandardTrace, read_trace
from ace.protocols.errors import LLMError
from ace.roles import SmallModelJudgementFinder, judgement_finder_for
from ace.traces import TraceCorrection

__all__ = ["show_judgements"]

_PROMPT_TOKENS: Final = 400
_BYTES_PER_TOKEN: Final = 4
_ANSWER_TOKENS: Final = 60


class _Judged(NamedTuple):
    """What a model named in one run."""

    place: str
    judgements: Sequence[CheckedJudgement]
    corrections: Sequence[TraceCorrection]


def show_judgements(paths: Sequence[str], settings: Settings, *, assume_yes: bool, as_json: bool) -> int:
    """Ask the model which replies of people say that an answer was wrong, and print what it names.

    Runs in which no person replied to an answer are not asked about.

    Args:
        paths: Files, folders or glob patterns of logs.
        settings: The settings, which choose the model and the runs.
        assume_yes: Whether the user has agreed to the cost already.
        as_json: Whether to print the result for a program.

    Raises:
        UsageError: No one can be asked whether to pay, or the model cannot be reached.
    """
    runs, has_losses, traces = 0, False, list[tuple[str, StandardTrace]]()
    with FoundRuns(paths, run_filter(settings)) as found:
        for item in found:
            if isinstance(item, Problem):
                note(f"ace: {item}")
                has_losses = has_losses or item.kind == "loss"
                continue
            runs += 1
            trace = read_trace(item)
            if replies_in(trace):
                traces.append((item.place, trace))
            if settings.limit is not None and runs >= settings.limit:
                break
    replied = f"a person replied to an answer in {len(traces)} of {counted(runs, 'run')}"
    if not traces:
        note(f"ace: {replied}; no model is asked")
    elif not _agreed(replied, traces, settings, assume_yes=assume_yes):
        return DONE
    judged = list(_judged(traces, settings)) if traces else []
    if as_json:
        print_json({"command": "inspect", **_as_json(judged, runs, len(traces), settings)})
    else:
        for line in _lines(judged):
            print_text(line)
        corrections = sum(len(run.corrections) for run in judged)
        print_text(f"{counted(corrections, 'correction')}; {replied}")
    return WITH_FAILURES if has_losses or not runs else DONE


def _agreed(replied: str, traces: Sequence[tuple[str, StandardTrace]], settings: Settings, *, assume_yes: bool) -> bool:
    """Print what asking takes, and return whether the user agrees."""
    client = client_from_settings(settings)
    is_short = isinstance(judgement_finder_for(client), SmallModelJudgementFinder)
    calls = sum(len(replies_in(trace)) for _, trace in traces) if is_short else len(traces)
    texts = sum(len(message.text.encode()) for _, trace in traces for message in messages_of(trace))
    sent = calls * _PROMPT_TOKENS + texts // _BYTES_PER_TOKEN
    cost = cost_told(chosen_model(settings), calls, sent, calls * _ANSWER_TOKENS)
    note(f"ace: {replied}; asking {model_and_place(settings)} takes {cost}")
    if assume_yes:
        return True
    if not can_ask():
        raise UsageError("nothing was sent: --yes asks the model")
    return says_yes("ace: Ask it?")


def _judged(traces: Sequence[tuple[str, StandardTrace]], settings: Settings) -> Iterator[_Judged]:
    client = client_from_settings(settings)
    finder, redactor = judgement_finder_for(client), redactor_for(client)
    for place, trace in traces:
        try:
            named = finder.find_judgements(trace)
        except LLMError as error:
            raise UsageError(f"{place}: {error}") from error
        shown = redacted_messages(trace, redactor)
        checked = checked_judgements(shown, named)
        yield _Judged(place, checked, corrections_of(checked, shown))


def _lines(judged: Sequence[_Judged]) -> Iterator[str]:
    for run in judged:
        for judgement in run.judgements:
            speaker = judgement.speaker or "no speaker"
            yield f"{run.place}, message {judgement.place}, {speaker}: {_one_line(judgement.quote)}"
            yield f"  answer {judgement.answer_place or '-'}: {_one_line(judgement.wrong)}"
            yield f"  question: {_one_line(judgement.question) or '-'}"
            yield f"  right: {_one_line(judgement.right) or '(not said)'}"
            yield f"  {_verdict(judgement, run.corrections)}\n"


def _verdict(judgement: CheckedJudgement, corrections: Sequence[TraceCorrection]) -> str:
    if judgement.problem:
        return f"not accepted: {judgement.problem}"
    if judgement.withdraws:
        return "withdraws an earlier judgement"
    return "a correction" if _is_last(judgement, corrections) else "replaced or withdrawn by a later judgement"


def _is_last(judgement: CheckedJudgement, corrections: Sequence[TraceCorrection]) -> bool:
    return any(correction["place"] == judgement.place for correction in corrections)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _as_json(judged: Sequence[_Judged], runs: int, asked: int, settings: Settings) -> Mapping[str, Any]:
    found = [
        {
            "run": run.place,
            "message": judgement.place,
            "speaker": judgement.speaker,
            "quote": judgement.quote,
            "wrong": judgement.wrong,
            "right": judgement.right,
            "question": judgement.question,
            "answer_message": judgement.answer_place,
            "withdraws": judgement.withdraws,
            "accepted": not judgement.problem,
            "problem": judgement.problem,
        }
        for run in judged
        for judgement in run.judgements
    ]
    corrections = [{"run": run.place, **correction} for run in judged for correction in run.corrections]
    numbers = {"model": chosen_model(settings), "runs": runs, "runs_with_replies": asked}
    return {**numbers, "judgements": found, "corrections": corrections}
