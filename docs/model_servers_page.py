"""Writes the reference page of model servers from the table of quirks: `python -m docs.model_servers_page`."""

from pathlib import Path

from ace.providers.server_quirks import QUIRKS, Quirk

PAGE = Path(__file__).parent / "reference" / "model-servers.md"

HEAD = """# Model servers

`ace` and `LiteLLMClient` work with servers that speak the protocol of OpenAI or Anthropic: hosted APIs, proxies and
gateways, Ollama, vLLM, LM Studio, llama.cpp, TGI and others. Servers differ in what they accept. The table says what is
recognised, and what is done about it. No server and no model is listed: a parameter is found by its name in the error
and in the request, and a context window by its number. Errors and answers are matched from the top.

"""

TAIL = """
A change is only remembered once the server no longer refuses the request for the same reason; one line says so. It is
kept for the model at this address, in the folder `ace/servers` of the user's cache folder, or in that of the variable
`ACE_SERVERS`; `ACE_SERVERS=off` keeps nothing.

```bash
ace models check openai/NAME --api-base http://localhost:8000/v1
ace models check openai/NAME --api-base http://localhost:8000/v1 --forget
```

The first command asks the model for a word, in the way that runs ask, and shows what is known about its server. So do
`ace learn` and the other commands that use a model, before anything is paid for. The second one forgets it, for example
after an update of the server.

`context_tokens` sets the context window where neither LiteLLM's table nor an error gives it, and `max_trace_tokens` the
part of it that a trace may take; see [Options](options.md).

Through LiteLLM, an answer whose `content` is a list can only be read for the providers for which LiteLLM reads it; the
error says so, and the answer is not asked for again.
"""


def page() -> str:
    """Return the text of the page."""
    rows = [f"| {quirk.seen} | {quirk.done} | {_kept(quirk)} |" for quirk in QUIRKS]
    table = ["| What the server does | What is done | Kept |", "|---|---|---|", *rows]
    return HEAD + "\n".join(table) + "\n" + TAIL


def _kept(quirk: Quirk) -> str:
    if quirk.learn is None:
        return ""
    return f"{quirk.days} days" if quirk.days else "for this request"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
