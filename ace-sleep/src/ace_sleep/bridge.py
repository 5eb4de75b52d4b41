"""Lets a process without network reach a few hosts: what arrives at ports of its loopback is forwarded to them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Host", "bridge"]

_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Host:
    """A host that can be reached."""

    name: str
    """Its name, or an address of loopback."""
    port: int

    def address(self, number: int) -> str:
        """Return the address of loopback at which it is reached.

        Args:
            number: Its position among the hosts, so that two of them can have the same port.

        Raises:
            ValueError: It is an address that is not one of loopback, to which no name leads.
        """
        if self.name == "localhost":
            return "127.0.0.1"
        try:
            literal = ipaddress.ip_address(self.name)
        except ValueError:
            return f"127.0.0.{number + 2}"
        if not (literal.version == 4 and literal.is_loopback):
            raise ValueError(f"{self.name} cannot be reached from a sandbox; use a name instead of an address")
        return self.name


@contextlib.contextmanager
def bridge(hosts: Sequence[Host]) -> Iterator[int]:
    """Forward to hosts, and yield the file descriptor through which a child process sends its listening sockets.

    Args:
        hosts: Where to forward to, in the order of the sockets.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        forwarding = threading.Thread(target=_serve, args=(ours, hosts), daemon=True)
        forwarding.start()
        try:
            yield theirs.fileno()
        finally:
            theirs.shutdown(socket.SHUT_RDWR)  # ends the thread, even if a child has a copy of the descriptor
            forwarding.join()


def _serve(channel: socket.socket, hosts: Sequence[Host]) -> None:
    handles = socket.recv_fds(channel, 1, len(hosts))[1]
    if handles:
        asyncio.run(_forward([socket.socket(fileno=handle) for handle in handles], hosts, channel))


async def _forward(listening: Sequence[socket.socket], hosts: Sequence[Host], channel: socket.socket) -> None:
    """Forward until the channel is closed."""
    for server, host in zip(listening, hosts, strict=True):
        await asyncio.start_server(functools.partial(_connect, host), sock=server)
    channel.setblocking(False)
    await asyncio.get_running_loop().sock_recv(channel, 1)


async def _connect(host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward one connection; if the host cannot be reached, it is closed."""
    try:
        from_host, to_host = await asyncio.open_connection(host.name, host.port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, to_host), _copy(from_host, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):  # either side may end it
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
