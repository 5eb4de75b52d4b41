"""Measures what sending samples to Opik costs a run, with servers that receive and servers that do not.

It exits with 1 if a run learned less than without Opik, or if a working server did not get the trace of every sample;
never because of time. The servers are in this process, so its CPU time includes receiving.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ace_opik import OpikStep
from benchmarks.options import add_quick, parser_of
from benchmarks.paired_runs import CLOSED, LOADS, QUICK_LOADS, Load, Took, compare, run
from benchmarks.wrong_result import WrongResult, require
from tests.opik.receiver import Receiver
from tests.opik.with_opik import close_connections


def with_server(load: Load, address: str = "", **answers: Any) -> tuple[Took, float]:
    """A run that sends to a server, and the seconds of the end of sending."""
    with Receiver(**answers) as receiver:
        os.environ.update(receiver.environ | ({"OPIK_URL_OVERRIDE": address} if address else {}))
        took = run(load, [OpikStep()])
        started = time.perf_counter()
        close_connections()
        end = time.perf_counter() - started
        expected = 0 if address or answers else load.samples
        require(len(receiver.traces) == expected, f"{len(receiver.traces)} of {expected} traces were received")
    return took, end


def main() -> int:
    parser = parser_of("opik", __doc__)
    add_quick(parser, "20 samples, one round")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)  # the traces that are lost on purpose
    kinds: dict[str, Callable[[Load], tuple[Took, float]]] = {
        "received": with_server,
        "status 500": partial(with_server, status=500),
        "no answer": partial(with_server, silent=True),
        "no network": partial(with_server, address=f"{CLOSED}/api"),
    }
    try:
        for load in QUICK_LOADS if quick else LOADS:
            compare(load, 1 if quick else 5, kinds)
    except WrongResult as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
