"""Runs commands in copies of repositories: without network, with a home folder of their own, and within limits."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ace_sleep.bridge import Host, bridge
from ace_sleep.shell import is_allow_listed

__all__ = [
    "Access",
    "Limits",
    "Outcome",
    "Place",
    "RefusedError",
    "Sandbox",
    "SandboxError",
    "best_sandbox",
    "sandboxes",
]

_HOME_INSIDE: Final = str(Path("/tmp", "home"))
_SECONDS_TO_END: Final = 20
_DEPENDENCIES: Final = (".venv", "venv", "node_modules")
"""Folders with installed packages, which no commit contains. A copy of a repository shows them read-only."""


class SandboxError(Exception):
    """The sandbox itself failed, so nothing is known about the command."""


class RefusedError(Exception):
    """The command is not run, because this machine has no sandbox for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command may use before it is ended."""

    seconds: float = 60.0
    processes: int = 256
    memory_bytes: int = 2 << 30
    output_bytes: int = 4 << 20
    file_bytes: int = 256 << 20
    """The largest file that it may write."""
    folder_bytes: int = 512 << 20
    """The most that it may write to its home folder, and to each folder for temporary files."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did."""

    exit_code: int | None
    """Its exit code; None if it was ended."""
    limit: str
    """The limit for which it was ended: `time`, `processes`, `memory` or `output`; empty if it was not."""
    output: str
    """What it printed, standard error included."""
    missed_network: bool
    """Whether it tried to reach something over the network in vain. Only the kernel of Linux counts that."""

    @property
    def worked(self) -> bool:
        """Whether it ended by itself and successfully."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A copy of a repository, and the path at which a command finds it."""

    root: Path
    """The folder of the repository."""
    tree: Path
    """The folder with the copy."""
    objects: Path
    """The folder of the repository with the objects of git, which the copy refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a program may use in addition to a copy of a repository."""

    home: Path
    """The folder that is its home folder, which remains afterwards."""
    environment: Mapping[str, str] = field(default_factory=dict)
    programs: Sequence[str] = ()
    """Folders that it is loaded from."""
    hosts: Sequence[Host] = ()
    """The hosts that it can reach."""

    @property
    def ports(self) -> list[tuple[str, int]]:
        """The addresses and ports inside at which it reaches the hosts."""
        return [(host.address(number), host.port) for number, host in enumerate(self.hosts)]

    def write_hosts_file(self) -> Path:
        """Write the file that leads the names of the hosts to these addresses, and return it."""
        addresses = [address for address, _ in self.ports]
        named = [(address, host.name) for address, host in zip(addresses, self.hosts, strict=True)]
        path = self.home.with_name("hosts")
        lines = [f"{address} {name}\n" for address, name in [("127.0.0.1", "localhost"), *named] if address != name]
        path.write_text("".join(dict.fromkeys(lines)), encoding="ascii")
        return path


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One way to keep a command from doing harm."""

    name: str
    """`bubblewrap`, `unshare`, `sandbox-exec`, or `none`, which only runs commands of the allow-list."""
    prefix: Callable[[Mapping[str, Any]], Sequence[str]]
    """Returns what precedes the command of the supervisor."""
    shows_copy_as_root: bool
    """Whether the copy is at the path of the repository inside, which itself cannot be seen."""

    def run(
        self,
        command: str,
        place: Place,
        folder: str = "",
        limits: Limits | None = None,
        access: Access | None = None,
    ) -> Outcome:
        """Run a command of a shell in a copy of a repository.

        Args:
            command: What a shell is to run.
            place: The copy. Only the copy, the home folder and the folders for temporary files can be written.
            folder: The folder to run it in, relative to the repository.
            limits: What it may use.
            access: What else it may use, which only a sandbox can grant that shows the copy as the repository.

        Raises:
            RefusedError: It could do harm here.
            SandboxError: The sandbox failed.
        """
        self._check(command, place)
        order = self._order(command, place, folder, limits or Limits(), access)
        with contextlib.ExitStack() as stack:
            if order["ports"]:
                assert access is not None
                order["channel"] = stack.enter_context(bridge(access.hosts))
            done, errors = _supervised([*self.prefix(order), *_supervisor()], order)
        try:
            found = json.loads(done)
        except ValueError:
            raise SandboxError(f"{self.name}: {errors.strip() or 'it ended without a result'}") from None
        return Outcome(found["exit_code"], found["limit"], found["output"], found["missed_network"])

    def _check(self, command: str, place: Place) -> None:
        if self.name == "none" and not is_allow_listed(command):
            raise RefusedError("no sandbox works here, and it is not on the list of commands that need none")
        if not self.shows_copy_as_root and str(place.root) in command:
            raise RefusedError("it names the folder of the repository itself")

    def _order(self, command: str, place: Place, folder: str, limits: Limits, access: Access | None) -> dict[str, Any]:
        base = place.root if self.shows_copy_as_root else place.tree
        hidden = _hidden_folders()
        return {
            "command": [shutil.which("bash") or "/bin/sh", "-c", command],
            "folder": str(base / folder) if folder else str(base),
            "environment": {**_environment(self._home(place)), **(access.environment if access else {})},
            "isolate": self.name == "unshare",
            "has_namespaces": self.name in ("unshare", "bubblewrap"),
            "tree": str(place.tree),
            "hidden": hidden,
            "bound": list(_bound(place, hidden, access)),
            "ports": access.ports if access else [],
            "channel": None,
            "user": os.getuid(),
            "group": os.getgid(),
            **{name: getattr(limits, name) for name in Limits.__slots__},
        }

    def _home(self, place: Place) -> str:
        if self.shows_copy_as_root:
            return _HOME_INSIDE
        home = place.tree.parent / "home"
        home.mkdir(exist_ok=True)
        return str(home)


def _supervisor() -> list[str]:
    return [sys.executable, "-I", "-S", "-B", "-c", _source()]


@functools.cache
def _source() -> str:
    return resources.files("ace_sleep").joinpath("supervisor.py").read_text(encoding="utf-8")


def _supervised(command: Sequence[str], order: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the supervisor prints, and its errors."""
    with tempfile.TemporaryFile() as errors:
        # Its standard input stays open until it is done: if this process is killed, that ends the command.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            pass_fds=[order["channel"]] if order["ports"] else [],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        killer = threading.Timer(order["seconds"] + _SECONDS_TO_END, process.kill)
        killer.start()
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            printed = process.stdout.read()
        except BrokenPipeError:
            printed = b""
        finally:
            killer.cancel()
            process.kill()  # only after an exception is there anything to kill
            process.stdout.close()
            _close_quietly(process)
            process.wait()
        errors.seek(0)
        return printed.decode("utf-8", "replace"), errors.read().decode("utf-8", "replace")


def _close_quietly(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # what was not written is of no interest anymore
        process.stdin.close()


def _hidden_folders() -> list[str]:
    """Return the folders that a command sees empty: those of the user, of other programs, and of their sockets."""
    found = sorted({os.path.realpath(name) for name in ("/tmp", "/var/tmp", "/run", str(Path.home()))})
    folders = [name for name in found if os.path.isdir(name) and name != "/"]
    return [name for name in folders if not any(_is_in(name, other) for other in folders if other != name)]


def _bound(place: Place, hidden: Sequence[str], access: Access | None) -> Iterator[tuple[str, str, bool]]:
    """Yield the folders that a command sees, each with its path inside, and whether it can be written."""
    programs = [*_toolchains(), *(access.programs if access else ())]
    found: dict[str, tuple[str, bool]] = {
        folder: (folder, False) for folder in programs if any(_is_in(folder, other) for other in hidden)
    }
    if access is not None:
        found[_HOME_INSIDE] = (str(access.home), True)
        names = os.path.realpath("/etc/hosts")
        if os.path.isfile(names):  # a missing one could not be covered without creating it
            found[names] = (str(access.write_hosts_file()), False)
    found[str(place.root)] = (str(place.tree), True)
    found[str(place.root / ".git" / "shared")] = (str(place.objects), False)
    for name in _DEPENDENCIES:
        installed = place.root / name
        if installed.is_dir() and not installed.is_symlink() and not _is_taken(place.tree / name):
            found[str(installed)] = (str(installed), False)
    for target in sorted(found):  # a folder before those in it
        source, writable = found[target]
        yield source, target, writable


def _is_taken(path: Path) -> bool:
    """Whether something of the commit is there, rather than nothing or the empty folder that a mount needs."""
    return path.is_symlink() or path.is_file() or (path.is_dir() and any(path.iterdir()))


def _toolchains() -> Iterator[str]:
    """Yield the folders with the programs on the path, and what they load from beside them."""
    home = Path.home()
    too_wide = (home, home / ".local", Path("/"), Path("/tmp"))
    for entry in map(Path, os.environ.get("PATH", os.defpath).split(os.pathsep)):
        if not entry.is_absolute() or not entry.is_dir():
            continue
        yield str(entry)
        if entry.name in ("bin", "shims", "sbin") and entry.parent not in too_wide:
            yield str(entry.parent)
        for name in ("python", "python3", "node"):
            real = (entry / name).resolve()
            if real.is_file() and real.parent.name == "bin" and real.parent.parent not in too_wide:
                yield str(real.parent.parent)
    if (home / ".local" / "lib").is_dir():
        yield str(home / ".local" / "lib")
    yield sys.prefix
    yield sys.base_prefix


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _environment(home: str) -> dict[str, str]:
    """Return the environment of a command, which inherits nothing but the path."""
    found = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    user_packages = Path.home() / ".local"
    return {**found, "PYTHONUSERBASE": str(user_packages)} if (user_packages / "lib").is_dir() else found


def _bubblewrap(order: Mapping[str, Any]) -> list[str]:
    found = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    found += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in order["hidden"]:
        found += ["--size", str(order["folder_bytes"]), "--tmpfs", folder]
    if order["ports"]:
        found += ["--cap-add", "CAP_NET_BIND_SERVICE"]  # in its own network only, where the hosts keep their ports
    found += ["--dir", _HOME_INSIDE]
    for source, target, writable in order["bound"]:
        found += ["--bind" if writable else "--ro-bind", source, target]
    return [*found, "--"]


def _unshare(order: Mapping[str, Any]) -> list[str]:
    spaces = ["--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--mount-proc"]
    return ["unshare", *spaces, "--kill-child", "--"]


def _sandbox_exec(order: Mapping[str, Any]) -> list[str]:
    scratch = json.dumps(os.path.dirname(os.path.realpath(order["tree"])))
    home = json.dumps(os.path.realpath(Path.home()))
    rules = [
        "(version 1)",
        "(allow default)",
        "(deny network*)",
        "(deny file-write*)",
        f"(deny file-read* (subpath {home}))",
        *(f"(allow file-read* (subpath {json.dumps(folder)}))" for folder in _toolchains()),
        f"(allow file-read* file-write* (subpath {scratch}))",
        '(allow file-write* (literal "/dev/null") (literal "/dev/tty"))',
    ]
    return ["sandbox-exec", "-p", "".join(rules)]


_KINDS: Final = (
    Sandbox("bubblewrap", _bubblewrap, shows_copy_as_root=True),
    Sandbox("unshare", _unshare, shows_copy_as_root=True),
    Sandbox("sandbox-exec", _sandbox_exec, shows_copy_as_root=False),
    Sandbox("none", lambda order: (), shows_copy_as_root=False),
)
_PROGRAMS: Final = {"bubblewrap": "bwrap", "unshare": "unshare", "sandbox-exec": "sandbox-exec"}


def sandboxes() -> Iterator[Sandbox]:
    """Yield the sandboxes that work on this machine, the best first. The last one is `none`."""
    for kind in _KINDS:
        if kind.name == "none" or (shutil.which(_PROGRAMS[kind.name]) and _works(kind)):
            yield kind


@functools.cache
def best_sandbox() -> Sandbox:
    """Return the best sandbox that works on this machine."""
    return next(sandboxes())


def _works(kind: Sandbox) -> bool:
    with tempfile.TemporaryDirectory(prefix="ace-sleep-") as folder:
        tree, objects = Path(folder, "tree"), Path(folder, "objects")
        (tree / ".git").mkdir(parents=True)
        objects.mkdir()
        try:
            return kind.run("test -d .git", Place(root=tree, tree=tree, objects=objects)).worked
        except SandboxError:
            return False
