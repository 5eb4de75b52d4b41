"""The command: `python -m benchmarks.sleep [--model NAME] [--arms ...] [--repositories ...] [--seeds N]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ace.runners.learning_settings import client_from_model
from benchmarks.sleep.acting import Agent, LiteralAgent
from benchmarks.sleep.arms import ARMS, Arm
from benchmarks.sleep.machine import Machine
from benchmarks.sleep.model_agent import ModelAgent
from benchmarks.sleep.report import Scores, as_json, lessons_table, results_table, score
from benchmarks.sleep.repositories import SAMPLES
from benchmarks.sleep.samples import Sample

_ARMS = {arm.name: arm for arm in ARMS}
_SAMPLES = {sample.name: sample for sample in SAMPLES}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status: 1 if `ace sleep` changed another repository, else 0."""
    options = _parser().parse_args(arguments)
    samples = [_SAMPLES[name] for name in options.repositories]
    if not shutil.which("node"):
        skipped = [sample.name for sample in samples if sample.language == "JavaScript"]
        samples = [sample for sample in samples if sample.name not in skipped]
        print(f"node was not found; skipped: {', '.join(skipped) or 'nothing'}", file=sys.stderr)
    arms = [_ARMS[name] for name in options.arms]
    agent: Agent = LiteralAgent()
    if options.model:
        agent = ModelAgent(client_from_model(options.model, temperature=0.0, max_tokens=64))
    load = os.getloadavg()
    scores = [_measured(arm, samples, seed, agent, options) for seed in range(1, options.seeds + 1) for arm in arms]
    print(results_table(scores, arms, samples))
    if options.lessons:
        print(f"\n{lessons_table(scores, arms)}")
    if isinstance(agent, ModelAgent):
        print(f"\n{agent.calls} questions to {options.model}; {agent.unusable} answers named nothing of the menu")
    if options.out is not None:
        about = {"model": options.model, "python": platform.python_version(), "load": [load, os.getloadavg()]}
        text = json.dumps({**about, "scores": as_json(scores)}, indent=1, default=vars, ensure_ascii=False)
        options.out.write_text(f"{text}\n", encoding="utf-8")
    return int(any(one.learned.foreign for one in scores if one.arm.startswith("ace")))


def _measured(arm: Arm, samples: Sequence[Sample], seed: int, agent: Agent, options: argparse.Namespace) -> Scores:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ace-sleep-machine-") as folder:
        root = Path(os.path.realpath(folder)) / "machine"
        machine = Machine(root, samples, seed, datetime.now(UTC), arm.only_claude)
        machine.set_up()
        learned = arm.learn(machine, options.other_python)
        shown = {sample.name: machine.instructions(sample) for sample in samples}
    found = score(arm, seed, learned, shown, samples, agent, options.prompts)
    what = learned.skipped or f"{len(found.rules)} rules, {len(found.traps)} traps"
    print(f"seed {seed}, {arm.title}: {what} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sleep",
        description="Learn from the sessions of coding agents in twelve tiny repositories with a hidden rule or a "
        "trap, and see what an agent does with what was learned. An agent that obeys instructions literally chooses "
        "the commands, or a model. Exits with 1 if learning in one repository changes another one.",
        epilog="SkillOpt-Sleep is skipped unless the Python of --other-python has the package skillopt.",
    )
    parser.add_argument("--model", help="a model that chooses each command, such as local/NAME or anthropic/NAME")
    parser.add_argument(
        "--arms", nargs="+", choices=list(_ARMS), default=list(_ARMS), metavar="ARM", help=", ".join(_ARMS)
    )
    parser.add_argument(
        "--repositories",
        nargs="+",
        choices=list(_SAMPLES),
        default=list(_SAMPLES),
        metavar="NAME",
        help=", ".join(_SAMPLES),
    )
    parser.add_argument("--seeds", type=int, default=3, help="machines to learn on (default: 3)")
    parser.add_argument(
        "--prompts", type=int, default=4, help="at most so many reworded and so many other tasks (default: 4)"
    )
    parser.add_argument("--lessons", action="store_true", help="print what was learned with the first seed")
    parser.add_argument(
        "--other-python", default=sys.executable, metavar="PROGRAM", help="the Python that has the package skillopt"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all that was measured as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
