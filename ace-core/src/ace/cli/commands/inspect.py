"""`ace inspect`: shows what is in logs, without a model unless it is asked for judgements or a mapping."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.inputs import FoundRuns, run_filter
from ace.cli.inspection import existing_places, inspection_as_json, print_inspection, run_as_text
from ace.cli.options import Flag, JsonFlag, SettingOptions, YesFlag, check_from_one
from ace.cli.settings import Settings, load_settings
from ace.logs import Problem, Run, readers
from ace.logs.summary import LogSummary

__all__ = ["command"]


class InspectOptions(SettingOptions, command="inspect"):
    """The settings of `ace inspect`."""


_DEFAULT_OPTIONS = InspectOptions()
_NO_LOGS = "none of the known tools has left logs in its default place; give files or folders"


def command(
    path: Annotated[list[str] | None, Parameter(name="path...", negative="", allow_leading_hyphen=True)] = None,
    /,
    *,
    options: InspectOptions = _DEFAULT_OPTIONS,
    show: Annotated[int | None, Parameter(name="--show")] = None,
    everything: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    judgements: Annotated[bool, Flag] = False,
    propose: Annotated[bool, Flag] = False,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Show what is in logs: runs, tasks, answers, failures, and what learning from them would cost.

    No model is called, nothing is sent and nothing is written, except with --judgements and --propose.

    For example:

        ace inspect logs/
        ace inspect ~/.codex/sessions --since 7d
        ace inspect --all
        ace inspect run.json --show 1
        ace inspect chats/ --judgements
        ace inspect own.jsonl --propose --map own.toml

    Args:
        path: Files, folders or glob patterns of logs; - reads standard input.
        options: The settings.
        show: Print this run, counted from 1, as the reflector will see it.
        everything: Look at the default places of all known tools.
        judgements: Let the model name the replies of people that say that an answer was wrong, after a confirmation,
            and list each with its speaker, its quotes, the answer that it is about and the right value.
        propose: Let the model propose how to read a file of an unknown format. It is shown names of fields, types and
            a few redacted values, after a confirmation. The mapping goes to the file of --map, or into ace.toml.
        yes: Do not ask for confirmation.
        as_json: Print the result as one JSON object.
    """
    check_from_one({"--show": show})
    settings = load_settings(options.flags(), command="inspect")
    paths = list(path or [])
    if everything:
        paths += existing_places([place for reader in readers() for place in reader.places])
    if not paths:
        raise UsageError(_NO_LOGS if everything else "nothing to inspect: give files or folders of logs, or --all")
    if propose:
        from ace.cli.proposing import propose_mapping

        return propose_mapping(paths, settings, assume_yes=yes, as_json=as_json)
    if judgements:
        from ace.cli.named_judgements import show_judgements

        return show_judgements(paths, settings, assume_yes=yes, as_json=as_json)
    return _inspected(paths, settings, show=show, is_everything=everything, as_json=as_json)


def _inspected(paths: list[str], settings: Settings, *, show: int | None, is_everything: bool, as_json: bool) -> int:
    summary = LogSummary()
    with FoundRuns(paths, run_filter(settings)) as found:
        for item in found:
            if isinstance(item, Problem):
                if not is_everything:
                    summary.add_problem(item)
                continue
            if is_everything and item.format == "unknown":
                continue  # beside their logs, tools keep settings and other files
            summary.add(item)
            if show is not None and summary.runs == show:
                _show(item, as_json=as_json)
                return DONE
            if settings.limit is not None and summary.runs >= settings.limit:
                break
        summary.side_files = found.side_files
    if is_everything and not summary.runs:
        raise UsageError(_NO_LOGS)
    if show is not None:
        raise UsageError(f"--show {show}: there are {summary.runs} runs")
    if as_json:
        print_json({"command": "inspect", **inspection_as_json(summary, settings)})
    elif summary.runs:
        print_inspection(summary, settings)
        print_text(_next(paths))
    else:
        for problem in summary.problems:
            print_text(str(problem))
    return WITH_FAILURES if summary.has_losses or not summary.runs else DONE


def _show(run: Run, *, as_json: bool) -> None:
    if not as_json:
        print_text(f"{run.place} ({run.format})\n")
        print_text(run_as_text(run))
        return
    from ace.logs.trace import read_trace
    from ace.redaction import Redactor

    about = {"command": "inspect", "place": run.place, "format": run.format}
    print_json({**about, "trace": Redactor().redact_value(read_trace(run))})


def _next(paths: list[str]) -> str:
    from shlex import join

    return f"\nNext:\n  ace inspect {join(paths[:1])} --show 1\n  ace learn {join(paths)} --limit 3"
