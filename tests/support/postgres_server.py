"""A PostgreSQL server of the tests' own, on loopback, in a temporary folder and as an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg

from tests.requirement import missing

USER, PASSWORD = "ace", "s3cret-pa55word"
_UNPRIVILEGED = "postgres"


class PostgresServer:
    """A server that is started on entry, and stopped and removed on exit. A test may stop and start it in between.

    The test is skipped if PostgreSQL is not installed.
    """

    def __init__(self) -> None:
        self._programs = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="ace-postgres-"))
        self._reserved = _reserved_port()
        self.port: int = self._reserved.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The location of its database, without a book."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        try:
            self._create()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._reserved.close()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            command = [*_as_unprivileged(), f"{self._programs}/postgres", "-D", f"{self.folder}/data", *options]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while True:
            try:
                psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "server.log").read_text(encoding="utf-8")
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends all connections ("fast"), SIGQUIT ends without a checkpoint ("immediate")."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _create(self) -> None:
        if _as_unprivileged():
            user = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        password = self.folder / "password"
        password.write_text(PASSWORD, encoding="ascii")
        password.chmod(0o644)
        command = [f"{self._programs}/initdb", "-D", f"{self.folder}/data", "--username", USER, "--no-sync"]
        options = [f"--pwfile={password}", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"]
        done = subprocess.run([*_as_unprivileged(), *command, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _programs() -> Path:
    """Return the folder of the newest installed server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parents[1].name))
    if not found:
        missing("postgres", "PostgreSQL is not installed in /usr/lib/postgresql, and ACE_POSTGRES_URL is not set")
    if os.getuid() == 0:
        try:
            pwd.getpwnam(_UNPRIVILEGED)
        except KeyError:
            missing("postgres", f"PostgreSQL refuses to run as root, and the user {_UNPRIVILEGED!r} does not exist")
    return found[-1].parent


def _as_unprivileged() -> list[str]:
    """Return the beginning of a command that must not run as root. It ends with the tests if they are killed."""
    if os.getuid() != 0:
        return []
    identity = [f"--reuid={_UNPRIVILEGED}", f"--regid={_UNPRIVILEGED}", "--clear-groups"]
    return ["setpriv", *identity, "--pdeathsig=INT"]


def _reserved_port() -> socket.socket:
    """Return a socket on a port that the system gives to no one else, also while the server is stopped.

    The server can use it nevertheless, because both set SO_REUSEADDR and this socket does not listen.
    """
    chosen = socket.socket()
    chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    chosen.bind(("127.0.0.1", 0))
    return chosen
