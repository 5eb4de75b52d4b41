"""The skillbook behind `ACELiteLLM`, and the runners that teach it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

from ace.runners.ace import ACE
from ace.runners.trace_analyser import TraceAnalyser
from ace.skillbook.book import Skillbook

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.agent import AgentLike
    from ace.protocols.reflector import ReflectorLike
    from ace.protocols.skill_manager import SkillManagerLike
    from ace.runners.base import ACERunner
    from ace.runners.settings import LearningSettings

__all__ = ["FacadeRunners"]


@final
class FacadeRunners:
    """Runners that are made when they are first needed. Iterating gives all that there were.

    Those that are not used any more are kept: something may be in their background, and they know what failed.

    Args:
        settings: What all runners are told about learning.
    """

    def __init__(self, settings: LearningSettings) -> None:
        self._settings = settings
        self.skillbook = settings.book()
        """The book that they teach."""
        self._learner: ACE | None = None
        self._judge: TaskEnvironment | None = None
        self._analyser: TraceAnalyser | None = None
        self._dropped: list[ACERunner] = []
        self._lock = threading.Lock()  # several users may need the first runner at once

    def __iter__(self) -> Iterator[ACERunner]:
        yield from self._dropped
        yield from (runner for runner in (self._learner, self._analyser) if runner is not None)

    def learner(
        self,
        agent: AgentLike,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        judge: TaskEnvironment | None,
    ) -> ACE:
        """Return the runner that learns from samples, a new one for another judge.

        Args:
            agent: Who answers.
            reflector: Who finds out what a trace teaches.
            skill_manager: Who turns that into operations.
            judge: Who judges the answers.
        """
        with self._lock:
            if self._learner is not None and self._judge is not judge:
                self._dropped.append(self._learner)
                self._learner = None
            if self._learner is None:
                steps = ACE._steps(agent, reflector, skill_manager, judge, None, self._settings, self.skillbook)
                self._judge, self._learner = judge, ACE._composed(steps, self.skillbook, self._settings)
            return self._learner

    def analyser(self, agent: AgentLike, reflector: ReflectorLike, skill_manager: SkillManagerLike) -> TraceAnalyser:
        """Return the runner that learns from traces.

        Args:
            agent: Who is asked to prove what is learned.
            reflector: Who finds out what a trace teaches.
            skill_manager: Who turns that into operations.
        """
        with self._lock:
            if self._analyser is None:
                steps = self._settings.tail(reflector, skill_manager, self.skillbook, agent=agent)
                self._analyser = TraceAnalyser._composed(steps, self.skillbook, self._settings)
            return self._analyser

    def go_on_with(self, skillbook: Skillbook, path: str | Path) -> None:
        """Teach another book from now on.

        Args:
            skillbook: The book.
            path: Its file.
        """
        with self._lock:
            self._dropped = list(self)
            self._learner = self._analyser = None
            self._settings = self._settings.moved(self.skillbook, skillbook, path)
            self.skillbook = skillbook
