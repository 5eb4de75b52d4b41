"""Runs one case in a process of its own: `python -m benchmarks.child NAME [quick]`. Prints its rows as JSON."""

import json
import sys

from .catalogue import CASES
from .rows import to_json
from .scale import FULL, QUICK
from .wrong_result import WrongResult


def main(name: str, *options: str) -> int:
    """Run a case; return the exit status."""
    try:
        rows = CASES[name](QUICK if "quick" in options else FULL)
    except WrongResult as wrong:
        print(f"{name}: wrong result: {wrong}", file=sys.stderr)
        return 1
    print(json.dumps([to_json(row) for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
