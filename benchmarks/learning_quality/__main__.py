"""The command: `python -m benchmarks.learning_quality [--model NAME] [--sets ...] [--orders N] [--methods ...]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ace.providers.local import DEFAULT_MODEL
from ace.runners.learning_settings import client_from_model
from benchmarks.learning_quality.adapters import ADAPTERS
from benchmarks.learning_quality.cached_client import AnswerCache, BenchmarkClient, CachedClient
from benchmarks.learning_quality.methods import METHODS, UPDATE_METHODS, Bench, Method
from benchmarks.learning_quality.outcomes import Outcome
from benchmarks.learning_quality.report import as_json, learning_table, quality_table
from benchmarks.learning_quality.sets import load_set, set_names, shuffled

KNOWN = {method.name: method for method in [*METHODS, *UPDATE_METHODS, *ADAPTERS]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status: 1 if something went wrong, never because of an accuracy."""
    options = _parser().parse_args(arguments)
    settings = {"temperature": 0.0, "max_tokens": 2048}
    if options.api_base:
        settings["api_base"] = options.api_base
    if options.repeatable:
        settings["repeatable"] = True
    client = cast("BenchmarkClient", client_from_model(options.model, **settings))
    if options.cache is None:
        return run(client, options)
    cache = AnswerCache(options.cache)
    try:
        return run(CachedClient(client, cache, settings=settings), options)
    finally:
        cache.close()


def run(client: BenchmarkClient, options: argparse.Namespace) -> int:
    """Run the methods with a client, and print the tables. The options are those of the command line."""
    bench = Bench(client, workers=options.workers, adapter_python=options.adapter_python)
    methods = [KNOWN[name] for name in options.methods]
    load_before = os.getloadavg()
    outcomes: list[Outcome] = []
    for name in options.sets:
        learning_set = load_set(name)
        for method in methods:
            for order in range(1, options.orders + 1) if method.depends_on_order else [0]:
                outcome = method.run(
                    bench, learning_set, shuffled(learning_set.traces, order) if order else learning_set.traces, order
                )
                outcomes.append(outcome)
                _say(method, outcome)
    titles = {method.name: method.title for method in methods}
    print(quality_table(outcomes, titles))
    learning = learning_table(outcomes, titles)
    print(f"\n{learning}" if learning else "")
    about = {
        "model": options.model,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": {"before": load_before, "after": os.getloadavg()},
        "answers_from_cache": getattr(client, "from_cache", 0),
        "answers_asked": getattr(client, "asked", None),
    }
    if isinstance(client, CachedClient):
        print(f"{client.from_cache} of {client.from_cache + client.asked} answers came from {options.cache}.")
    if options.out is not None:
        document = {**about, "outcomes": as_json(outcomes)}
        options.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    wrong = [
        f"{finished.set_name}, {finished.method}, order {finished.order}: {it}"
        for finished in outcomes
        for it in finished.problems
    ]
    for problem in wrong:
        print(f"WRONG: {problem}")
    return 1 if wrong else 0


def _say(method: Method, outcome: Outcome) -> None:
    what = outcome.skipped or f"{sum(outcome.right)} of {len(outcome.answers)}"
    print(f"{outcome.set_name}, {method.title}, order {outcome.order}: {what}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_quality",
        description="Learn from recorded chats in which a person corrects an agent, and ask new questions that the "
        "corrections decide. Exits with 1 if a run goes wrong, such as a skillbook that loses a skill.",
        epilog="Methods of other packages run in programs of their own and are skipped where their package is not "
        "installed; see README.md.",
    )
    own = [method.name for method in METHODS]
    parser.add_argument("--model", default=f"local/{DEFAULT_MODEL}", help="a model string (default: %(default)s)")
    parser.add_argument("--api-base", metavar="URL", help="the address of your own OpenAI-compatible server")
    parser.add_argument("--repeatable", action="store_true", help="local models: equal answers every time, but slower")
    parser.add_argument("--sets", nargs="+", choices=set_names(), default=set_names(), metavar="SET")
    parser.add_argument("--orders", type=_count, default=3, help="orders of the traces to learn in (default: 3)")
    parser.add_argument(
        "--methods", nargs="+", choices=list(KNOWN), default=own, metavar="METHOD", help=", ".join(KNOWN)
    )
    parser.add_argument(
        "--workers", type=_count, default=4, help="questions to ask at once (default: 4); 1 learns one by one"
    )
    parser.add_argument("--cache", type=Path, metavar="FILE", help="keep answers here and use those that are there")
    parser.add_argument(
        "--adapter-python",
        default=sys.executable,
        metavar="PROGRAM",
        help="the Python that has the packages of the other methods (default: this one)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all answers and counts as JSON")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


if __name__ == "__main__":
    sys.exit(main())
