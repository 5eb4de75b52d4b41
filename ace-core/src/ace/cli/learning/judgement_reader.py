"""`JudgementReader`: has a model find what persons said about the answers in recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, final

from ace.calls.secrets import known_secrets
from ace.cases import judged_trace, replies_in
from ace.cli.console import counted, note
from ace.cli.learning.run_report import RunCounts
from ace.cli.model_choice import told_plainly
from ace.protocols.errors import UnusableAnswerError
from ace.protocols.observers import observing
from ace.redaction import Redactor

if TYPE_CHECKING:
    from ace.cli.settings import Settings
    from ace.protocols.llm import LLMClientLike

__all__ = ["JudgementReader", "needs_reading"]

Trace = Mapping[str, Any]


def needs_reading(trace: Trace) -> bool:
    """Return whether only a model can tell whether an answer in a run was wrong: a person wrote something after it.

    Args:
        trace: A standard trace. If it contains a correction, the right answer or a check, that decides.
    """
    is_known = any(trace.get(name) for name in ("corrections", "ground_truth", "check"))
    return not is_known and bool(replies_in(trace))


@final
class JudgementReader:
    """Finds the judgements of persons in recorded runs, as learning does.

    Args:
        client: The client of the model.
        settings: The settings of the command line.
    """

    def __init__(self, client: LLMClientLike, settings: Settings) -> None:
        from ace.roles import judgement_finder_for

        self._finder = judgement_finder_for(client)
        self._redactor = Redactor(known_secrets(client), allow=settings.learning.allow)
        self._settings = settings
        self._counts = RunCounts()

    @property
    def cost(self) -> float:
        """What the calls so far have cost, in US dollars."""
        return self._counts.use.cost

    def read(self, traces: Sequence[Trace]) -> list[Trace]:
        """Return runs with the corrections in them. A run for which the model gave no usable answer stays as it is.

        Args:
            traces: Standard traces.

        Raises:
            UsageError: The model could not be reached.
        """
        with (
            told_plainly(self._settings),
            observing(self._counts),
            ThreadPoolExecutor(self._settings.run.workers or 1) as threads,
        ):
            tasks = [threads.submit(copy_context().run, self._read, trace) for trace in traces]
            read = [task.result() for task in tasks]
        if failed := read.count(None):
            note(f"ace: {counted(failed, 'run')} skipped, because the model gave no usable answer about them")
        return [trace if found is None else found for trace, found in zip(traces, read, strict=True)]

    def _read(self, trace: Trace) -> Trace | None:
        try:
            named = self._finder.find_judgements(trace)
        except UnusableAnswerError:
            return None
        return judged_trace(trace, named, self._redactor)
