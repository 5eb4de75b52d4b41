"""Which addresses only programs on this machine can reach."""

from __future__ import annotations

import ipaddress

__all__ = ["host_of", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a name or an address.

    Args:
        host: The name or address, without a port.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(text: str) -> str:
    """Return the host in an origin, or in the header `Host`.

    Example:
        >>> host_of("http://[::1]:8712"), host_of("example.com:80"), host_of("null")
        ('::1', 'example.com', 'null')
    """
    address = text.rpartition("//")[2]
    return address[1:].partition("]")[0] if address.startswith("[") else address.partition(":")[0]
