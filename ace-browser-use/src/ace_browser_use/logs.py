"""Reads the histories that agents of browser-use save. Works without the framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ace.integrations import extract_cited_skill_ids
from ace.logs import LogHead, Problem, Run, RunBuilder, Source, Tokens, time_of
from ace_browser_use.history import History, is_history, read_history
from ace_browser_use.outcome import outcome_of
from ace_browser_use.result import BrowserResult, BrowserStep
from ace_browser_use.site_skills import sites_in

__all__ = ["BrowserLogs", "result_of_history", "run_of_result", "words_of"]


class BrowserLogs:
    """Reads the JSON files that `save_to_file` of a history writes."""

    name = "browser_use"
    title = "browser-use histories"
    places = ()
    side_files = ()
    note = (
        "Histories of older releases do not contain the task. The outcome is what the agent claims, unless a judge was "
        "asked."
    )

    def recognises(self, head: LogHead) -> float:
        """Return how certainly this is a history, from 0 to 1.

        Args:
            head: The beginning of the source.
        """
        if any(map(is_history, head.objects)):
            return 0.95
        is_cut = head.shape in ("object", "values") and head.text.lstrip()[:1] == "{"
        return 0.8 if is_cut and '"history"' in head.text and '"model_output"' in head.text else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run of each history in order.

        Args:
            source: A file with one history, or with several.
        """
        found = False
        for value, line in source.records():
            if not is_history(value):
                continue
            found = True
            history = read_history(value)
            run = run_of_result(result_of_history(history))
            ended = history.is_done or history.ran_out_of_steps
            yield replace(
                run,
                success=run.success if ended else None,
                is_interrupted=not ended,
                started=time_of(history.started),
                ended=time_of(history.ended),
                place=f"{source.name}, line {line}" if line > 1 else "",
            )
        if not found:
            yield source.problem("no whole history of browser-use")


def result_of_history(history: History, task: str = "") -> BrowserResult:
    """Return the result of a run from its history.

    Args:
        task: The task, if the history does not contain it.
    """
    outcome = outcome_of(history)
    return BrowserResult(
        task=task or history.task,
        success=outcome.success,
        output=history.last_word,
        error=outcome.error,
        steps_count=len(history.steps),
        duration_seconds=sum(step["seconds"] or 0.0 for step in history.steps),
        cited_skill_ids=tuple(extract_cited_skill_ids(f"{words_of(history.steps)}\n{history.last_word}")),
        chronological_steps=history.steps,
        problems=outcome.problems,
        usage=history.usage,
    )


def run_of_result(result: BrowserResult) -> Run:
    """Return the run of a result.

    Args:
        result: What the agent did.
    """
    builder = RunBuilder()
    for step in result.chronological_steps:
        _add_step(builder, step)
    usage = result.usage
    return builder.run(
        task=result.task,
        context=result.context,
        answer=result.output,
        success=result.success,
        reason=_reason(result),
        outcome_from="result.success",
        tokens=Tokens(input=usage.get("input_tokens"), output=usage.get("output_tokens")),
        skill_ids=result.cited_skill_ids,
        metadata={
            "integration": "browser_use",
            "error": result.error,
            "problems": list(result.problems),
            "sites": sites_in(result.chronological_steps),
        },
    )


def _add_step(builder: RunBuilder, step: BrowserStep) -> None:
    place = str(step["number"])
    page = "\n".join(filter(None, (step["url"], step["title"], step["page"])))
    builder.message("harness", page if step["url"] or step["page"] else "", place, name="page")
    builder.thought("\n".join(f"{name}: {text}" for name, text in step["thoughts"].items()), place)
    for number, action in enumerate(step["actions"], 1):
        call = f"{place}.{number}"
        builder.call(action["name"], action["arguments"], call, place)
        if action["error"] or action["result"]:
            builder.result(action["error"] or action["result"], call, place, is_error=bool(action["error"]))
    # What no action returned is said by the browser.
    for name in step["downloads"]:
        builder.message("tool", f"The file {name} was downloaded.", place, name="download")
    builder.message("tool", step["error"] or "", place, name="step", is_error=True)
    if (step["http_status"] or 0) >= 400:
        text = f"{step['arrived_at']}: HTTP status {step['http_status']}"
        builder.message("tool", text, place, name="page", is_error=True)


def _reason(result: BrowserResult) -> str:
    """Describe the outcome and the problems of the run."""
    steps = "1 step" if result.steps_count == 1 else f"{result.steps_count} steps"
    if result.success:
        ended = f"By the agent's own word, the task was done, in {steps}."
    else:
        ended = _sentence(f"The task failed after {steps}: {result.error}")
    others = [problem for problem in result.problems if problem not in (result.error or "")]
    return f"{ended} On the way: {_sentence('; '.join(others))}" if others else ended


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def words_of(steps: Iterable[BrowserStep]) -> str:
    """Return all texts of the agent itself, without those of pages.

    Args:
        steps: The steps of the agent.
    """
    said: list[str] = []
    for step in steps:
        said += step["thoughts"].values()
        for action in step["actions"]:
            if action["name"] == "done" and isinstance(action["arguments"], Mapping):
                said.append(str(action["arguments"].get("text", "")))
    return "\n".join(said)
