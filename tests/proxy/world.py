"""A proxy in this process in front of a server that answers with scripted bytes, and what both saw."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ace.integrations import listening_socket
from ace.logs import Run, read_runs
from ace.skillbook import Skillbook
from ace_proxy.app import Proxy
from ace_proxy.conversations import Conversations
from ace_proxy.recording import Recorder
from ace_proxy.serving import serving
from ace_proxy.skills import SkillSource
from ace_proxy.upstream import Upstream
from tests.support.loopback import LoopbackHandler, LoopbackServer

KEY = "sk-secret-5f8e2c9b7a6d4e3f"
SKILL = "Always pack an umbrella when the weather is asked for."


@dataclass(frozen=True)
class Seen:
    """A request as a server received it."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass(frozen=True)
class Raw:
    """A response, whose pieces are sent one by one. `breaks` closes the connection before its end."""

    pieces: Sequence[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    breaks: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def in_json(value: object, status: int = 200) -> Raw:
    return Raw([json.dumps(value).encode()], status)


def in_events(*events: object) -> Raw:
    pieces = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode() for event in events]
    return Raw(pieces, headers={"content-type": "text/event-stream; charset=utf-8", "x-request-id": "req_1"})


def chat(text: str) -> Raw:
    message = {"role": "assistant", "content": text}
    return in_json({"id": "c1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]})


class RawServer(LoopbackServer):
    """Answers each request with what `reply` returns for it, and keeps the requests."""

    def __init__(self, reply: Callable[[Seen], Raw]) -> None:
        super().__init__(_Handler)
        self.reply = reply
        self.seen: list[Seen] = []

    def answer(self, seen: Seen) -> Raw:
        with self._lock:
            self.seen.append(seen)
        try:
            return self.reply(seen)
        except BaseException as error:
            self._errors.append(error)
            raise


class _Handler(LoopbackHandler):
    scripted: RawServer

    def do_POST(self) -> None:
        reply = self.scripted.answer(Seen(self.command, self.path, self.headers.items(), self._whole_body()))
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if len(reply.pieces) == 1 and not reply.breaks:
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if not reply.breaks:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    do_GET = do_DELETE = do_POST

    def _whole_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.body()
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


@dataclass
class World:
    """A proxy with all that belongs to it."""

    server: RawServer
    address: str
    folder: Path
    recorder: Recorder
    skills: SkillSource
    told: list[str]
    handed_over: list[Path]
    ending: ExitStack

    @property
    def api(self) -> str:
        return f"{self.address}/v1"

    def runs(self) -> list[Run]:
        """End the proxy, and return the recorded runs in the order in which they began."""
        self.ending.close()
        runs = [run for run in read_runs(self.folder / "runs") if isinstance(run, Run)]
        return sorted(runs, key=lambda run: str(run.started))


@contextmanager
def world(
    folder: Path,
    reply: Callable[[Seen], Raw],
    *,
    skills: Sequence[str] = (),
    silence: float = 600.0,
    key: str | None = None,
    upstream: str = "",
) -> Iterator[World]:
    """Run a proxy in front of a server."""
    told: list[str] = []
    handed_over: list[Path] = []
    conversations = Conversations()
    recorder = Recorder(folder / "proxy", conversations, handed_over.extend, silence=silence, tell=told.append)
    book = folder / "skills.db"
    if skills:
        with Skillbook.open(book) as opened:
            for skill in skills:
                opened.add_skill("lessons", skill)
    source = SkillSource(str(book), lambda: Skillbook.open(book), budget=2000, tell=told.append)
    with RawServer(reply) as server, listening_socket("127.0.0.1", 0) as listening, ExitStack() as ending:
        chosen = Upstream.chosen(upstream or server.url, {})
        source.start()
        ending.callback(source.close)
        recorder.start()
        ending.callback(recorder.close)
        ending.enter_context(
            serving(
                lambda client: Proxy(
                    chosen, client, conversations=conversations, skills=source, recorder=recorder, key=key
                ),
                listening,
            )
        )
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield World(server, address, folder / "proxy", recorder, source, told, handed_over, ending)
