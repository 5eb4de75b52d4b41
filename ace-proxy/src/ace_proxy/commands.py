"""`ace proxy`: the model calls of any agent get skills, and are learned from."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from cyclopts import Parameter

from ace.cli import CommandContext
from ace.integrations import DONE, JobQueue, UsageError, counted, is_loopback, listening_socket, note, print_text
from ace.skillbook import has_scheme

if TYPE_CHECKING:
    from ace.skillbook import Skillbook
    from ace_proxy.conversations import Conversations
    from ace_proxy.recording import Recorder
    from ace_proxy.skills import SkillSource

__all__ = ["proxy"]

KEY_VARIABLE: Final = "ACE_PROXY_KEY"
"""The variable with the key that clients of other machines must send."""
_PORT: Final = 8712
_SILENCE: Final = 120.0
_SHORTEST_KEY: Final = 16

Flag = Parameter(negative="")
OpenBook: TypeAlias = "Callable[[], AbstractContextManager[Skillbook]]"


def proxy(
    *program: Annotated[str, Parameter(allow_leading_hyphen=True)],
    upstream: str = "",
    record_only: Annotated[bool, Flag] = False,
    skills_only: Annotated[bool, Flag] = False,
    learn_later: Annotated[bool, Flag] = False,
    skill_budget: int = 2000,
    budget: float = 1.0,
    skillbook: str | None = None,
    model: str | None = None,
    api_base: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    context: CommandContext,
) -> int:
    """Add skills to the model calls of any agent, and learn from its runs.

    The agent, in any language, sends its calls to the proxy instead of OpenAI, Anthropic or Google. The skills that fit
    are added to the system text; everything else passes unchanged. Calls are joined to conversations. Two minutes after
    the last call of a conversation, or when the program ends, it is learned from in the background.

    For example:

        ace proxy
        ace proxy -- python my_agent.py
        ace proxy --record-only -- node agent.js

    Args:
        program: A program and its arguments, after --. It gets the address in OPENAI_BASE_URL, ANTHROPIC_BASE_URL and
            GOOGLE_GEMINI_BASE_URL, and the proxy ends with it.
        upstream: Where the calls are sent. By default, the address in OPENAI_BASE_URL, ANTHROPIC_BASE_URL or
            GOOGLE_GEMINI_BASE_URL, else that of the provider.
        record_only: Add no skills, and learn nothing before ace learn --from-proxy.
        skills_only: Record nothing.
        learn_later: Learn nothing before ace learn --from-proxy.
        skill_budget: The maximum size of the skills in a call, in tokens.
        budget: The daily limit on the cost of learning (USD). The remaining runs wait for the next day.
        skillbook: Where the skills come from, and where new ones go.
        model: The model that learns, which need not be that of the agent.
        api_base: The address of the model that learns.
        host: The address to listen on. One that other machines can reach requires a key in ACE_PROXY_KEY, which
            clients send in the header x-ace-key.
        port: The port to listen on; 0 takes a free one. [default: 8712, or a free one for a program]
    """
    if record_only and skills_only:
        raise UsageError("--record-only and --skills-only exclude each other: nothing would be left to do")
    if program and not is_loopback(host):
        raise UsageError(f"--host {host}: a program that the proxy runs is on this machine; omit --host")
    settings = context.settings(skillbook=skillbook, model=model, api_base=api_base)
    options = _Options(
        upstream=upstream,
        shows_skills=not record_only,
        records=not skills_only,
        learns=not (record_only or skills_only or learn_later),
        skill_budget=skill_budget,
        budget=budget,
        host=host,
        port=(0 if program else _PORT) if port is None else port,
        skillbook=settings.skillbook,
        model=settings.model or "",
        api_base=settings.api_base or "",
        folder=settings.proxy_folder.absolute(),
    )
    return _serve(options, lambda: context.skillbook(settings), program)


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What the user wants of the proxy."""

    upstream: str
    shows_skills: bool
    records: bool
    learns: bool
    skill_budget: int
    budget: float
    host: str
    port: int
    skillbook: str
    model: str
    api_base: str
    folder: Path
    """Where runs are recorded."""

    def __post_init__(self) -> None:
        if self.skill_budget < 1:
            raise UsageError(f"--skill-budget must be at least 1, got {self.skill_budget}")
        if not 0 < self.budget < inf:
            raise UsageError(f"--budget must be more than 0 US dollars, got {self.budget:g}")


def _serve(options: _Options, open_book: OpenBook, program: Sequence[str]) -> int:
    """Serve until the program ends, or without one until a signal comes; return the exit code."""
    from ace_proxy.app import Proxy
    from ace_proxy.conversations import Conversations
    from ace_proxy.serving import run_program, serving
    from ace_proxy.upstream import Upstream

    key = _key_for(options.host)
    upstream = Upstream.chosen(options.upstream, os.environ)
    with closing(listening_socket(options.host, options.port)) as listening:
        port = listening.getsockname()[1]
        upstream.check_is_not_here(port)
        conversations = Conversations()
        with (
            _skills(options, open_book) as skills,
            _recorder(options, conversations) as recorder,
            serving(
                lambda client: Proxy(
                    upstream, client, conversations=conversations, skills=skills, recorder=recorder, key=key
                ),
                listening,
            ),
        ):
            address = f"http://{f'[{options.host}]' if ':' in options.host else options.host}:{port}"
            return run_program(program, address) if program else _wait(address)


def _wait(address: str) -> int:
    """Print the variables to set, and wait for a signal."""
    print_text(f"export OPENAI_BASE_URL={address}/v1")
    print_text(f"export ANTHROPIC_BASE_URL={address}")
    note("ace proxy: set these two variables where your agent runs; Ctrl-C ends the proxy")
    note(f"ace proxy: agents on the Gemini API take GOOGLE_GEMINI_BASE_URL={address}")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    return DONE


@contextmanager
def _skills(options: _Options, open_book: OpenBook) -> Iterator[SkillSource | None]:
    """Follow the skillbook."""
    from ace_proxy.skills import SkillSource

    if not options.shows_skills:
        yield None
        return
    source = SkillSource(options.skillbook, open_book, budget=options.skill_budget, tell=_tell)
    source.start()
    try:
        yield source
    finally:
        source.close()


@contextmanager
def _recorder(options: _Options, conversations: Conversations) -> Iterator[Recorder | None]:
    """Record conversations, and at the end hand over those that are still open."""
    from ace_proxy.learner import LearnerSettings, queue_runs
    from ace_proxy.recording import Recorder

    if not options.records:
        yield None
        return
    queue = JobQueue(options.folder)
    learner = LearnerSettings(
        folder=str(Path.cwd()),
        skillbook=_absolute(options.skillbook),
        model=options.model,
        api_base=options.api_base,
        budget=str(options.budget),
    )
    finished = 0

    def hand_over(files: Sequence[Path]) -> None:
        nonlocal finished
        finished += len(files)
        if options.learns:
            queue_runs(queue, files, learner)

    recorder = Recorder(queue.folder, conversations, hand_over, silence=_SILENCE, tell=_tell)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.close()
        if finished:
            how = f"learning in the background, see {queue.log}" if options.learns else "learn: ace learn --from-proxy"
            _tell(f"{counted(finished, 'run')} recorded; {how}")


def _key_for(host: str) -> str | None:
    """Return the key that clients must send; None if only this machine can reach the proxy."""
    if is_loopback(host):
        return None
    key = os.environ.get(KEY_VARIABLE, "")
    if len(key) < _SHORTEST_KEY or not key.isascii():
        raise UsageError(
            f"--host {host}: other machines could use the proxy; set a key of at least {_SHORTEST_KEY} ASCII "
            f"characters in {KEY_VARIABLE}, which clients send in the header x-ace-key"
        )
    return key


def _absolute(location: str) -> str:
    return location if has_scheme(location) else str(Path(location).absolute())


def _tell(sentence: str) -> None:
    note(f"ace proxy: {sentence}")
