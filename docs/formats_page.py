"""Writes the reference page of log formats from the readers: `python -m docs.formats_page`.

What is read of a format is what its reader finds in the files of the tests.
"""

from collections.abc import Iterator
from pathlib import Path

from ace.logs import LogReader, Run, read_runs, readers

ROOT = Path(__file__).parent.parent
PAGE = Path(__file__).parent / "reference" / "formats.md"
SAMPLES = ROOT / "tests" / "core" / "logs" / "data"

HEAD = """# Formats

The logs that ACE reads, in `ace inspect`, `ace learn`, `ace eval`, the service, MCP and `ace.read_runs`. The content of
a file decides, not its name. `--format NAME` chooses a reader, and `ace inspect --all` looks into the folders below.
"What is read" lists what the readers find in the files of the tests; a log may hold less. Plugins add formats, such as
those of [Claude Code](ace_claude_code.md), [OpenClaw](ace_openclaw.md), [browser-use](ace_browser_use.md) and
[LangChain](ace_langchain.md); [Read your own logs](../how-to/read-your-own-logs.md) shows how to add one.

"""


def page() -> str:
    """Return the text of the page."""
    found = [reader for reader in readers() if type(reader).__module__.startswith("ace.")]
    read = _what_is_read()
    rows = [
        f"| {reader.title} | `{reader.name}` | {_places(reader)} | {read.get(reader.name, '')} | {reader.note} |"
        for reader in sorted(found, key=lambda reader: (reader.name == "unknown", reader.title.lower()))
    ]
    table = ["| Format | Name | Default places | What is read | Limits |", "|---|---|---|---|---|", *rows]
    return HEAD + "\n".join(table) + "\n"


def _places(reader: LogReader) -> str:
    return ", ".join(f"`{place}`" for place in reader.places)


def _what_is_read() -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for item in read_runs(SAMPLES):
        if isinstance(item, Run):
            found.setdefault(item.format, {}).update(dict.fromkeys(_parts(item)))
    order = list(_parts(None))
    return {name: ", ".join(sorted(parts, key=order.index)) for name, parts in found.items()}


def _parts(run: Run | None) -> Iterator[str]:
    """Yield what a run has, in words; everything that a run can have for None."""
    kinds = set() if run is None else {step.kind for step in run.steps}
    said = run is not None and sum(step.kind == "message" and step.speaker == "person" for step in run.steps) > 1
    checks = {
        "task": run and run.task,
        "answer": run and run.answer,
        "further turns of persons": said,
        "thoughts": "thought" in kinds,
        "calls": "call" in kinds,
        "results": "result" in kinds,
        "failures of tools": run and any(step.is_error for step in run.steps),
        "outcome": run and (run.success is not None or run.score is not None),
        "reason": run and run.reason,
        "right answer": run and run.truth,
        "model": run and run.model,
        "tokens": run and (run.tokens.input is not None or run.tokens.output is not None),
        "cost": run and run.cost is not None,
        "times": run and run.started,
        "folder": run and run.cwd,
        "commit": run and run.commit,
    }
    yield from (name for name, has in checks.items() if has or run is None)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
