"""Runs one command inside a sandbox, within limits. Sent as source to a Python process that knows nothing of ACE.

The first line of standard input is the order, as JSON; its end means that the process that gave it is gone, and ends
the command. What happened is printed as JSON. With `isolate`, the process has namespaces of its own, and the folders
are arranged here; otherwise the sandbox has already done so.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
MOUNT_ATTR_RDONLY, AT_FDCWD, AT_RECURSIVE, MOUNT_SETATTR = 1, -100, 0x8000, 442
CLONE_NEWUSER, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 0x10000000, 38, 24
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
SYSTEM_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
SECONDS_BETWEEN_CHECKS = 0.02


class _Kernel:
    """The calls of Linux that Python 3.11 lacks."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        self._call("mount", source.encode(), target.encode(), kind.encode(), flags, data.encode())

    def set_read_only(self, target: str, *, recursive: bool, clear: bool = False) -> None:
        attributes = (ctypes.c_uint64 * 4)(0 if clear else MOUNT_ATTR_RDONLY, MOUNT_ATTR_RDONLY if clear else 0, 0, 0)
        flags = AT_RECURSIVE if recursive else 0
        self._call("syscall", MOUNT_SETATTR, AT_FDCWD, target.encode(), flags, ctypes.byref(attributes), 32)

    def new_user_namespace(self) -> None:
        self._call("unshare", CLONE_NEWUSER)

    def drop_capabilities(self) -> None:
        for capability in range(64):
            self._libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those that this kernel does not have
        self._call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        self._call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._libc, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")


def isolate(order: dict[str, Any]) -> None:
    """Hide the user's folders, put the copy of the repository in its place, and make everything else read-only."""
    kernel = _Kernel()
    kernel.mount("none", "/", "", MS_REC | MS_PRIVATE)
    bound = [(os.open(source, os.O_PATH), target, writable) for source, target, writable in order["bound"]]
    devices = [(os.open(f"/dev/{name}", os.O_PATH), name) for name in DEVICES if os.path.exists(f"/dev/{name}")]
    private = [*order["hidden"], "/dev"]
    for folder in private:
        kernel.mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=0755,size={order['folder_bytes']}")
    for handle, name in devices:
        open(f"/dev/{name}", "w").close()
        kernel.mount(f"/proc/self/fd/{handle}", f"/dev/{name}", "", MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"/dev/{name}")
    os.mkdir("/dev/shm", 0o1777)
    for handle, target, _ in bound:
        if not os.path.exists(target):
            os.makedirs(target)
        kernel.mount(f"/proc/self/fd/{handle}", target, "", MS_BIND | MS_REC)
    os.makedirs(order["environment"]["HOME"], exist_ok=True)
    kernel.set_read_only("/", recursive=True)
    for target in ["/proc", *private, *(target for _, target, writable in bound if writable)]:
        kernel.set_read_only(target, recursive=False, clear=True)
    for target in filter(os.path.exists, SYSTEM_SETTINGS):  # which root may change in any namespace
        kernel.mount(target, target, "", MS_BIND)
        kernel.set_read_only(target, recursive=False)
    for handle in [*(handle for handle, *_ in bound), *(handle for handle, _ in devices)]:
        os.close(handle)
    user, group = order["user"], order["group"]
    kernel.new_user_namespace()
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} 0 1"), ("gid_map", f"{group} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    kernel.drop_capabilities()


def hand_over_ports(order: dict[str, Any]) -> None:
    """Listen where the command may reach a host, and send the sockets to the caller, which forwards to the host.

    A socket stays in the network that it was created in, so the caller accepts connections from inside.
    """
    if order["isolate"]:
        set_loopback_up()
    listening = [socket.create_server((address, port)) for address, port in order["ports"]]
    with socket.socket(fileno=order["channel"]) as channel:
        socket.send_fds(channel, [b"."], [server.fileno() for server in listening])
    for server in listening:
        server.close()


def set_loopback_up() -> None:
    """Enable the loopback interface, which a new network has but does not use."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = struct.unpack("16sh", fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", name, flags | IFF_UP))


class Limit(Exception):
    """A limit was reached, or the caller is gone."""


class Watched:
    """The command while it runs."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._counts_all = order["has_namespaces"]
        self.output = bytearray()
        self._seen = 0
        self._process = subprocess.Popen(
            order["command"],
            cwd=order["folder"],
            env=order["environment"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=self._limit,
        )

    def _limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._order["file_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(self._order["seconds"]) + 1,) * 2)

    def wait(self) -> int:
        """Return the exit code.

        Raises:
            Limit: The command was ended.
        """
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        end = time.monotonic() + self._order["seconds"]
        is_open = True
        while is_open or self._process.poll() is None:
            if time.monotonic() > end:
                raise Limit("time")
            self._check_use()
            sources = [pipe, 0] if is_open else [0]
            ready = select.select(sources, [], [], SECONDS_BETWEEN_CHECKS)[0]
            if 0 in ready and not os.read(0, 65536):
                raise Limit("caller")
            if pipe in ready:
                is_open = self._keep(os.read(pipe, 65536))
            elif self._process.poll() is not None:
                break  # what still holds the pipe is a process in the background
        return self._process.wait()

    def _keep(self, read: bytes) -> bool:
        self._seen += len(read)
        self.output += read
        if self._seen > self._order["output_bytes"]:
            raise Limit("output")
        return bool(read)

    def _check_use(self) -> None:
        if not self._counts_all:
            return
        own = str(os.getpid())
        numbers = [name for name in os.listdir("/proc") if name.isdigit() and name != own]
        used = [size for size in map(_resident_bytes, numbers) if size]  # one that has ended uses nothing
        if len(used) > self._order["processes"]:
            raise Limit("processes")
        if sum(used) > self._order["memory_bytes"]:
            raise Limit("memory")

    def end(self) -> None:
        """End the command and its process group; in a sandbox, everything ends with this process."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def network_failures() -> int:
    """Return how often this network had no route to an address, or no one listened there, as the kernel counts it."""
    failures = 0
    with open("/proc/net/snmp") as file:
        lines = [line.split() for line in file]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        counted = dict(zip(names, values, strict=True))
        failures += int(counted.get("OutNoRoutes", 0)) + int(counted.get("AttemptFails", 0))
    if os.path.exists("/proc/net/snmp6"):
        with open("/proc/net/snmp6") as file:
            failures += sum(int(line.split()[1]) for line in file if line.startswith("Ip6OutNoRoutes"))
    return failures


def _resident_bytes(number: str) -> int:
    try:
        with open(f"/proc/{number}/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):  # it ended meanwhile
        return 0


def main() -> None:
    """Carry out the order on standard input."""
    line = b""
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            return
        line += read
    order = json.loads(line)
    if order["ports"]:
        hand_over_ports(order)
    if order["isolate"]:
        isolate(order)
    failures_before = network_failures() if order["has_namespaces"] else 0
    watched = Watched(order)
    code, limit = None, ""
    try:
        code = watched.wait()
    except Limit as reached:
        limit = str(reached)
    finally:
        watched.end()
    output = watched.output.decode("utf-8", "replace")
    missed = order["has_namespaces"] and network_failures() > failures_before
    sys.stdout.write(json.dumps({"exit_code": code, "limit": limit, "output": output, "missed_network": missed}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
