"""A program whose agents work until they are stopped; arguments: how many, and what becomes of them at the end."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from dataclasses import replace

from ace_browser_use import BrowserUse
from tests.browser_use import harbour
from tests.browser_use.steps import acting
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer


def main(workers: int, at_end: str) -> None:
    begun: set[str] = set()
    is_unsignalled = threading.Semaphore()

    def script(request: ScriptedRequest) -> Answer:
        (ship,) = set(re.findall(r"Wait for ship (\d+)", request.text))
        os.write(1, f"step of {ship}\n".encode())  # whole, as several threads write
        begun.add(ship)
        if at_end == "interrupt" and len(begun) == workers and is_unsignalled.acquire(blocking=False):
            os.write(1, b"signal\n")
            os.kill(os.getpid(), signal.SIGINT)
        return replace(acting({"wait": {"seconds": 1}}), delay=1)

    async def fail(_: object) -> None:
        if at_end == "exit":
            os._exit(3)

    with ScriptedServer(script) as server:
        runner = BrowserUse.from_model(
            harbour.browser_llm(server),
            ace_llm=client_for(server),
            browser=harbour.profile(),
            max_steps=100_000,
            on_step_end=fail,
            check_key=False,
        )
        try:
            runner.run([f"Wait for ship {number}" for number in range(workers)], workers=workers)
        except KeyboardInterrupt:
            os.write(1, b"interrupted\n")


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored if the tests were started by nohup
    main(int(sys.argv[1]), sys.argv[2])
