"""Calls the models that project files name, in a process of its own: through which hosts do the requests go?

Every request to another host is sent to a proxy on this machine, which notes the host and refuses. Run as
`python -m tests.core.cli.project_model_calls fuzz` or `... hosts`; it prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from urllib.parse import urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from ace.cli.errors import UsageError
from ace.cli.settings import load_settings
from ace.protocols.errors import LLMError
from ace.runners.learning_settings import client_from_model

# fmt: off
PREFIXES = [
    "openai", "anthropic", "azure", "azure_ai", "baseten", "bedrock", "bytez", "clarifai", "cloudflare", "custom",
    "custom_openai", "databricks", "datarobot", "dotprompt", "docker_model_runner", "gemini", "github", "gradient_ai",
    "groq", "hosted_vllm", "huggingface", "infinity", "langgraph", "litellm_proxy", "llamafile", "lm_studio", "local",
    "mistral", "nlp_cloud", "ollama", "ollama_chat", "oobabooga", "openai_like", "openrouter", "petals", "predibase",
    "replicate", "sagemaker", "snowflake", "text-completion-openai", "triton", "vertex_ai", "vllm", "watsonx", "xai",
    "xinference", "claude_code", "acme", "OPENAI",
]
# fmt: on


class Recorder(BaseHTTPRequestHandler):
    """Notes the host of each request, and refuses it."""

    hosts: ClassVar[set[str]]

    def do_POST(self) -> None:
        """Note the host."""
        self.hosts.add(urlsplit(self.path).hostname or str(self.headers.get("Host")))
        self.send_error(502)

    def do_GET(self) -> None:
        """Note the host of a request without a body, too."""
        self.do_POST()

    def do_CONNECT(self) -> None:
        """Note the host of an encrypted connection."""
        self.hosts.add(self.path.rpartition(":")[0])
        self.send_error(502)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Proxy(Recorder):
    """Stands for every other host."""

    hosts: ClassVar[set[str]] = set()


class Target(Recorder):
    """Stands for the host of an attacker."""

    hosts: ClassVar[set[str]] = set()


def started(kind: type[Recorder]) -> ThreadingHTTPServer:
    """Return a server that runs on a thread."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def call(folder: Path, model: str) -> str:
    """Call the model that the project file in a folder names, and return how that ended."""
    (folder / "ace.toml").write_text(f"model = {json.dumps(model)}\n", encoding="utf-8")
    try:
        chosen = load_settings({}, environ={"ACE_API_KEY": "sk-test", "HOME": str(folder)}, folder=folder)
    except UsageError:
        return "refused"
    if chosen.model is None:
        return "none named"
    try:
        client_from_model(chosen.model, api_key=chosen.api_key, timeout=60, max_retries=0).complete("Say ready.")
    except LLMError:
        return "called"
    raise AssertionError(f"{model!r} was answered")


def fuzz(folder: Path, address: str) -> dict[str, object]:
    """Try model strings that hold an address in many places, and return how often each ending occurred."""
    counts: defaultdict[str, int] = defaultdict(int)
    plain = st.text("abcxyz019._-", max_size=6)
    noise = st.just("") | st.sampled_from(
        ["", "/", "//", "@", "x@", "#", "?", "\\", " ", "%2f", "\t", ":", "..", "~/", "/v1", "\n", "é"]
    )
    place = st.sampled_from([f"http://{address}", f"//{address}", address, f"http:/{address}", f"HTTP://{address}"])
    provider = st.one_of(st.sampled_from(PREFIXES), plain, st.just(""))
    hostile = st.builds(
        lambda *parts: "".join(parts), provider, st.sampled_from(["/", "/", "/", "", "//"]), noise, place, noise, plain
    )
    named = st.builds(lambda name, path: f"{name}/{path}", st.sampled_from(PREFIXES), plain)

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(st.one_of(hostile, hostile, hostile, hostile, named, st.text(max_size=30)))
    def run(model: str) -> None:
        counts[call(folder, model)] += 1

    run()
    return dict(counts)


def hosts(folder: Path) -> dict[str, list[str]]:
    """Return the hosts that are asked for each provider that a project may name, whatever the name of the model."""
    from ace.cli.project_rules import PROJECT_PROVIDERS

    found = {}
    for provider in sorted(PROJECT_PROVIDERS):
        Proxy.hosts.clear()
        for name in ("x.evil.test", "evil.test:80/x.evil.test/y", "a@evil.test"):
            assert call(folder, f"{provider}/{name}") == "called"
        found[provider] = sorted(Proxy.hosts)
    return found


def main() -> None:
    """Run what the argument says."""
    through = f"http://127.0.0.1:{started(Proxy).server_port}"
    port = started(Target).server_port
    own = {
        "AZURE_API_BASE": "https://own.test",
        "AZURE_API_VERSION": "2024-10-21",
        "OLLAMA_API_BASE": "http://own.test",
    }
    own |= {"HOSTED_VLLM_API_BASE": "http://own.test", "LM_STUDIO_API_BASE": "http://own.test"}
    os.environ |= {**own, "HTTP_PROXY": through, "HTTPS_PROXY": through, "ALL_PROXY": through, "NO_PROXY": "127.0.0.1"}
    with TemporaryDirectory() as name:
        folder = Path(name)
        if sys.argv[1] == "hosts":
            result: object = hosts(folder)
        else:
            result = {"endings": fuzz(folder, f"127.0.0.1:{port}"), "arrived": sorted(Target.hosts)}
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
