"""The sockets of commands that serve."""

from __future__ import annotations

import socket

from ace.cli.errors import UsageError

__all__ = ["listening_socket"]


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens, for the command of a server with the option `--port`.

    Args:
        host: The address.
        port: The port; 0 takes a free one.

    Raises:
        UsageError: The port is in use, or the address is not of this machine.

    Example:
        >>> with listening_socket("127.0.0.1", 0) as listening:
        ...     listening.getsockname()[0]
        '127.0.0.1'
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host}:{port}: {reason}; choose another port with --port") from error
    # Connections inherit it. Without it, the body of each further response on a connection waits for 40 ms until the
    # client has acknowledged the headers; asyncio only sets it on sockets of its own.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
