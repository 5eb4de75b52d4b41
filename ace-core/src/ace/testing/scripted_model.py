"""`ScriptedModel` replaces the model of the framework under test; the scripted roles learn from its answers."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any, final

from ace.pipeline import CancellationToken, PipelineCancelled

if TYPE_CHECKING:
    from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
    from ace.protocols import SkillbookReader

__all__ = [
    "FailingModel",
    "MeetingModel",
    "ScriptedModel",
    "ScriptedReflector",
    "ScriptedSkillManager",
    "TaskCancellingModel",
    "TokenCancellingModel",
    "code_word",
    "code_words",
    "lesson_of",
]

_CODE_WORD = re.compile(r"kit\d{4}code")
_PATIENCE = 2.0


def code_word(number: int) -> str:
    """Return a unique word that identifies a task in prompts and answers.

    Example:
        >>> code_word(3)
        'kit0003code'
    """
    return f"kit{number:04d}code"


def code_words(text: str) -> list[str]:
    """Return the code words in a text, without duplicates.

    Example:
        >>> code_words("kit0003code and kit0001code, kit0003code")
        ['kit0003code', 'kit0001code']
    """
    return list(dict.fromkeys(_CODE_WORD.findall(text)))


class ScriptedModel:
    """Replaces the language model of a framework.

    Called with the whole prompt, it returns the text of the answer, or raises an error that a model may raise. If the
    framework awaits its model, await `ask` instead.

    Example:
        >>> model = ScriptedModel()
        >>> model("Repeat the code word kit0001code.")
        'The code word is kit0001code.'
        >>> len(model.prompts)
        1
    """

    def __init__(self) -> None:
        self.prompts: list[str] = []
        """All prompts so far."""
        self._home = threading.get_ident()

    def __call__(self, prompt: str) -> str:
        """Answer a prompt.

        Args:
            prompt: The whole text of the prompt: instructions, skills and task.
        """
        self.prompts.append(prompt)
        self._begin(prompt)
        end = time.monotonic() + self._longest_wait()
        while not self._is_ready() and time.monotonic() < end:
            time.sleep(0.005)
        return self._answer(prompt)

    async def ask(self, prompt: str) -> str:
        """Answer a prompt, for a framework that awaits its model.

        Args:
            prompt: The whole text of the prompt: instructions, skills and task.
        """
        self.prompts.append(prompt)
        self._begin(prompt)
        end = time.monotonic() + _PATIENCE
        while not self._is_ready() and time.monotonic() < end:  # noqa: ASYNC110  # set by other threads, of any loop
            await asyncio.sleep(0.005)
        return self._answer(prompt)

    def _begin(self, prompt: str) -> None:
        """Called when a prompt arrives."""

    def _is_ready(self) -> bool:
        """Return whether the answer may be given."""
        return True

    def _answer(self, prompt: str) -> str:
        words = code_words(prompt)
        return f"The code word is {words[-1]}." if words else "There is no code word."

    def _longest_wait(self) -> float:
        """Return the maximum waiting time of a call, in seconds. A call on the step's own thread must not wait."""
        return 0.0 if threading.get_ident() == self._home else _PATIENCE


@final
class FailingModel(ScriptedModel):
    """A model that cannot be reached."""

    def _answer(self, prompt: str) -> str:
        raise RuntimeError("the model of the conformance kit fails, as it should")


@final
class MeetingModel(ScriptedModel):
    """A model that answers when all tasks have called it, so that they run at the same time.

    Args:
        size: The number of tasks.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def _is_ready(self) -> bool:
        return len({word for prompt in list(self.prompts) for word in code_words(prompt)}) >= self._size


@final
class TokenCancellingModel(ScriptedModel):
    """A model during whose answer the run is cancelled. It raises `PipelineCancelled`, unless it was left before.

    Args:
        token: The token of the run.
        over: Set when the step has ended.
    """

    def __init__(self, token: CancellationToken, over: threading.Event) -> None:
        super().__init__()
        self._token = token
        self._over = over

    def _begin(self, prompt: str) -> None:
        self._token.cancel()

    def _is_ready(self) -> bool:
        return self._over.is_set()

    def _answer(self, prompt: str) -> str:
        raise PipelineCancelled("the run was cancelled while the model answered")


@final
class TaskCancellingModel(ScriptedModel):
    """A model during whose answer the asyncio task of the step is cancelled.

    Args:
        over: Set when the step has ended.
    """

    def __init__(self, over: threading.Event) -> None:
        super().__init__()
        self._over = over
        self._task: asyncio.Task[object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def watch(self, task: asyncio.Task[object]) -> None:
        """Cancel this task, which runs on the running loop, when the model is asked."""
        self._task, self._loop = task, asyncio.get_running_loop()

    def _begin(self, prompt: str) -> None:
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _is_ready(self) -> bool:
        return self._over.is_set()

    def _answer(self, prompt: str) -> str:
        raise asyncio.CancelledError


def lesson_of(word: str) -> str:
    """Return the skill that is learned from the task with a code word.

    Example:
        >>> lesson_of("kit0001code")
        'Heed what was learned of kit0001code.'
    """
    return f"Heed what was learned of {word}."


@final
class ScriptedReflector:
    """A reflector that learns one lesson about the code word of each task, and keeps the traces in `traces`."""

    def __init__(self) -> None:
        self.traces: list[object] = []
        self._lock = threading.Lock()

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: Any,
    ) -> ReflectorOutput:
        """Return a reflection that names the code word of the task."""
        from ace.outputs import ExtractedLearning, ReflectorOutput

        with self._lock:
            self.traces.append(kwargs.get("trace"))
        words = code_words(question) or code_words(json.dumps(kwargs.get("trace"), default=repr))
        lessons = [lesson_of(word) for word in words[:1]]
        return ReflectorOutput(
            reasoning="Looked for the code word.",
            error_identification="",
            root_cause_analysis="",
            correct_approach="",
            key_insight="".join(lessons),
            extracted_learnings=[ExtractedLearning(learning=lesson) for lesson in lessons],
        )


@final
class ScriptedSkillManager:
    """A skill manager that adds the key insight of each reflection as a skill."""

    def update_skills(
        self,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str = "",
        progress: str = "",
        **kwargs: Any,
    ) -> SkillManagerOutput:
        """Return the operation that adds the skill."""
        from ace.outputs import SkillManagerOutput
        from ace.updates import UpdateBatch, UpdateOperation

        insight = reflection.key_insight
        operations = [UpdateOperation("ADD", section="kit", content=insight)] if insight else []
        return SkillManagerOutput(update=UpdateBatch("From the reflection.", operations))
