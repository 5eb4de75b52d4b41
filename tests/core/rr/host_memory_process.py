"""A process that runs hostile code in sessions, and prints by how many bytes it has grown with each.

Its argument is the memory of the sessions in bytes; without it, they have the default.
"""

from __future__ import annotations

import json
import resource
import sys

from ace.rr import SandboxLimits, TraceSandbox


def largest_size() -> int:
    """Return the largest size that this process ever had, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def main() -> None:
    """Run each piece of code that standard input lists, in a session of its own."""
    growths = []
    limits = SandboxLimits(memory=int(sys.argv[1]) if len(sys.argv) > 1 else None)
    with TraceSandbox({}, limits=limits) as sandbox:
        sandbox.execute("print('warm')")
    for code in json.load(sys.stdin):
        before = largest_size()
        with TraceSandbox({}, limits=limits) as sandbox:
            sandbox.execute(code)
        growths.append(largest_size() - before)
    json.dump(growths, sys.stdout)


if __name__ == "__main__":
    main()
