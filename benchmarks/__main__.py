"""The command: `python -m benchmarks [--quick] [--json | --markdown] [case ...]`."""

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

from .catalogue import CASES, matching
from .markdown import print_markdown
from .rows import Row, from_json, to_json
from .table import print_tables


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, each in a fresh process; return the exit status: 1 if one of them had a wrong result."""
    options = _parser().parse_args(arguments)
    try:
        names = matching(options.cases)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    rows: list[Row] = []
    failed: list[str] = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name}", file=sys.stderr, flush=True)
        case_rows = _run(name, quick=options.quick)
        if case_rows is None:
            failed.append(name)
        else:
            rows += case_rows
    if options.json:
        document = {"python": platform.python_version(), "quick": options.quick, "failed": failed}
        print(json.dumps({**document, "rows": [to_json(row) for row in rows]}, indent=2))
    elif options.markdown:
        print_markdown(rows)
    else:
        print_tables(rows, quick=options.quick)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the pipeline engine against plain code that does the same, in the same process. "
        "Exits with 1 if a result is wrong, never because something took long.",
        epilog=f"cases: {', '.join(CASES)}",
    )
    parser.add_argument("cases", nargs="*", metavar="case", help="names or patterns such as 'workload-*'; default: all")
    parser.add_argument("--quick", action="store_true", help="few samples; checks that it works, not how fast it is")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of tables")
    form.add_argument("--markdown", action="store_true", help="print the tables of the documentation")
    return parser


def _run(name: str, *, quick: bool) -> list[Row] | None:
    command = [sys.executable, "-m", "benchmarks.child", name, *(["quick"] if quick else [])]
    root = Path(__file__).parents[1]
    child = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    if child.returncode != 0:
        return None
    return [from_json(values) for values in json.loads(child.stdout)]


if __name__ == "__main__":
    sys.exit(main())
