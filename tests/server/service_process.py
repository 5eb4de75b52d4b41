"""A process that runs services in children of its own, which a test can kill.

It imports what they need once, so that a child starts at once. Each line of its input is a JSON object: the settings of
a `ServiceProcess`. It answers with the process id of the child, then with the port once that answers requests, and with
the exit status when it has ended. A child kills itself right before, inside or after a transaction, if it is told so.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dbos._sys_db_sqlite  # noqa: F401  # the children import it otherwise, each of them, as well as what `main` does
import sqlalchemy as sa
import uvicorn.lifespan.on
import uvicorn.protocols.http.h11_impl  # noqa: F401
from sqlalchemy import event

from ace.evaluation import CounterGate  # noqa: F401
from ace.integrations import listening_socket
from ace.plugins import list_plugins
from ace.providers import LiteLLMClient
from ace.runners import TraceAnalyser  # noqa: F401
from ace_server import running
from ace_server.api.app import create_app
from ace_server.database import Database
from ace_server.jobs import start_worker
from ace_server.seal import Seal
from ace_server.service import Service
from ace_server.settings import ServerSettings
from tests.server.service_world import wait_until

When = Literal["before", "inside", "after"]


class Exchange(NamedTuple):
    """A response."""

    status: int
    retry_after: str | None
    body: dict[str, Any]


class ServiceProcess:
    """The process, and the service that it runs at the moment.

    Args:
        folder: The data folder.
        location: The location of the database.
        api_base: The address of the model.
        seal_key: The key of the seal.
        settings: The settings of the service.
        has_worker: Whether it learns.
    """

    def __init__(
        self,
        folder: Path,
        location: str | Path,
        api_base: str,
        seal_key: str,
        settings: Mapping[str, object],
        *,
        has_worker: bool = True,
    ) -> None:
        self._life = {
            "folder": str(folder),
            "location": str(location),
            "api_base": api_base,
            "seal_key": seal_key,
            "settings": dict(settings),
            "has_worker": has_worker,
        }
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.service_process"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.child = 0
        self.port = 0

    def start(self, kill: tuple[str, int, When] | None = None) -> None:
        """Start a service, and wait until it answers requests, unless it is killed before.

        Args:
            kill: The pattern of a statement, which of these statements, and where the child kills itself: before it,
                inside its transaction, or right after that.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**self._life, "kill": kill}) + "\n")
        self._process.stdin.flush()
        self.child, self.port = self._number(), self._number()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the service."""
        os.kill(self.child, number)

    def is_running(self) -> bool:
        """Return whether the service has not ended yet."""
        try:
            state = Path(f"/proc/{self.child}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # it may end between opening the file and reading it
            return False
        return state != "Z"

    def status(self, progress: Callable[[], object] = lambda: None) -> int:
        """Wait until the service has ended, and return its exit code; negative if a signal ended it.

        Args:
            progress: What changes while it is worth to wait.
        """
        wait_until(lambda: not self.is_running(), progress)
        return os.waitstatus_to_exitcode(self._number())

    def post(self, path: str, body: object, key: str) -> int | None:
        """Send JSON, and return the status of the response; None if there was no response."""
        try:
            return self.exchange(path, body, key).status
        except (OSError, HTTPException):
            return None

    def exchange(self, path: str, body: object, key: str) -> Exchange:
        """Send JSON, and return the response.

        Raises:
            OSError: There was no response.
            HTTPException: The response was not complete.
        """
        with contextlib.closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            return Exchange(response.status, response.headers.get("retry-after"), json.loads(response.read()))

    def close(self) -> None:
        """End the process, and a service that a failed test has left."""
        if self.child and self.is_running():
            os.kill(self.child, signal.SIGKILL)
        self._process.communicate()

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def service_process(*arguments: Any, **options: Any) -> Iterator[ServiceProcess]:
    """Run the process while the block runs."""
    found = ServiceProcess(*arguments, **options)
    try:
        yield found
    finally:
        found.close()


def _kill_at(pattern: str, number: int, when: When) -> None:
    """Kill this process at the statement of this number that matches."""
    wanted, seen = re.compile(pattern), [0]
    hit: list[object] = []

    def end() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def before(connection: Any, cursor: Any, statement: str, *others: object) -> None:
        if wanted.search(statement):
            seen[0] += 1
            if seen[0] == number and when == "before":
                end()

    def executed(connection: sa.Connection, cursor: Any, statement: str, *others: object) -> None:
        if wanted.search(statement) and seen[0] >= number:
            if when == "inside":
                end()
            hit.append(connection.connection.dbapi_connection)

    def returned(connection: object, entry: object) -> None:
        if any(other is connection for other in hit):
            end()

    event.listen(sa.Engine, "before_cursor_execute", before)
    event.listen(sa.Engine, "after_cursor_execute", executed)
    event.listen(sa.pool.Pool, "checkin", returned)


def _serve(life: Mapping[str, Any], tell: Any) -> int:
    settings = ServerSettings(data=Path(life["folder"]), **life["settings"])
    database = Database(life["location"])
    client = LiteLLMClient("openai/scripted", api_base=life["api_base"], api_key="k", max_retries=0)
    service = Service(
        settings=settings,
        database=database,
        seal=Seal([life["seal_key"]]),
        client=client,
        model="openai/scripted",
    )
    if life["kill"] is not None:
        _kill_at(*life["kill"])
    listening = listening_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    return running.serve(
        create_app(service),
        listening,
        service=service,
        start_worker=(lambda: start_worker(service)) if life["has_worker"] else None,
        on_ready=lambda: tell(port),
    )


def _child(life: Mapping[str, Any], writing: int) -> int:
    def tell(port: int) -> None:
        os.write(writing, f"{port}\n".encode())
        os.close(writing)

    try:
        return _serve(life, tell)
    except BaseException:
        traceback.print_exc()
        return 1


def main() -> None:
    """Start a child for each line."""
    list_plugins()
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os._exit(_child(json.loads(line), writing))
        os.close(writing)
        print(child, flush=True)
        with os.fdopen(reading) as pipe:
            print(pipe.readline().strip() or 0, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
