"""Where requests go: the address of the provider, or one that the user names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from ace.integrations import UsageError, is_loopback
from ace_proxy.dialects import Provider

__all__ = ["Upstream"]

_OPENAI: Final = "https://api.openai.com/v1"
_ANTHROPIC: Final = "https://api.anthropic.com"
_GOOGLE: Final = "https://generativelanguage.googleapis.com"
_VERSION: Final = "/v1"


@dataclass(frozen=True, slots=True)
class Upstream:
    """The addresses to which requests are sent.

    Example:
        >>> upstream = Upstream.chosen("", {})
        >>> str(upstream.address("/v1/chat/completions", b"", "openai"))
        'https://api.openai.com/v1/chat/completions'
        >>> str(upstream.address("/v1/messages", b"beta=true", "anthropic"))
        'https://api.anthropic.com/v1/messages?beta=true'
    """

    openai: httpx.URL
    """The address of the OpenAI API."""
    anthropic: httpx.URL
    """The address of the Anthropic API."""
    google: httpx.URL
    """The address of the Gemini API."""

    @classmethod
    def chosen(cls, named: str, environ: Mapping[str, str]) -> Upstream:
        """Return the address that the user has named, else those of the environment, else those of the providers.

        Args:
            named: The address of the option; empty if it was not given.
            environ: The environment variables, which name what a program without the proxy would use.

        Raises:
            UsageError: An address is not one of HTTP.
        """
        if named:
            url = _url(named, "--upstream")
            return cls(url, url, url)
        return cls(
            _url(environ.get("OPENAI_BASE_URL") or _OPENAI, "OPENAI_BASE_URL"),
            _url(environ.get("ANTHROPIC_BASE_URL") or _ANTHROPIC, "ANTHROPIC_BASE_URL"),
            _url(environ.get("GOOGLE_GEMINI_BASE_URL") or _GOOGLE, "GOOGLE_GEMINI_BASE_URL"),
        )

    def address(self, path: str, query: bytes, provider: Provider) -> httpx.URL:
        """Return the address for a request.

        As in the SDK of OpenAI, the path of an address that does not end in `/v1` replaces the `/v1` of the request.

        Args:
            path: The path of the request, as it was sent.
            query: Its query.
            provider: Whose API it is.
        """
        base = {"openai": self.openai, "anthropic": self.anthropic, "google": self.google}[provider]
        prefix = base.raw_path.decode("ascii").partition("?")[0].rstrip("/")
        if prefix.endswith(_VERSION) and path.startswith(f"{_VERSION}/"):
            prefix = prefix.removesuffix(_VERSION)
        elif prefix and provider == "openai":
            path = path.removeprefix(_VERSION)
        target = f"{prefix}{path}".encode("ascii") + (b"?" + query if query else b"")
        return base.copy_with(raw_path=target)

    def check_is_not_here(self, port: int) -> None:
        """Check that requests do not go in a circle.

        Args:
            port: The port on which the proxy listens.

        Raises:
            UsageError: An address is that of the proxy.
        """
        if any(is_loopback(url.host) and url.port == port for url in (self.openai, self.anthropic, self.google)):
            raise UsageError(
                f"the upstream is the proxy itself, on port {port}; unset OPENAI_BASE_URL, ANTHROPIC_BASE_URL and "
                "GOOGLE_GEMINI_BASE_URL where you start it, or give --upstream"
            )


def _url(text: str, origin: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"{origin}: {text!r} is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"{origin}: {text!r} is not an address; it must begin with http:// or https://")
    return url
