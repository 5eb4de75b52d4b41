"""`BrowserUse`: a browser agent that learns from its own runs."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ace.runners import IntegrationRunner
from ace.steps import UpdateStep
from ace_browser_use.agent_settings import agent_arguments
from ace_browser_use.execute import BrowserExecuteStep
from ace_browser_use.site_skills import SiteSkillsStep
from ace_browser_use.to_trace import BrowserToTrace

if TYPE_CHECKING:
    from browser_use import BrowserProfile, BrowserSession
    from browser_use.llm.base import BaseChatModel

    from ace import ACEStepContext, Skillbook, StepProtocol
    from ace.protocols import LLMClientLike, ReflectorLike, SkillManagerLike
    from ace.runners import LearningSettings

__all__ = ["BrowserUse"]


class BrowserUse(IntegrationRunner):
    """Does tasks in a browser, and learns skills from how it went.

    `run` takes texts and samples. With `workers=N`, N browsers are at work.

    Example:
        >>> from ace import LiteLLMClient
        >>> runner = BrowserUse.from_model("gpt-4o-mini", ace_llm=LiteLLMClient("gpt-4o-mini"))
        >>> [type(step).__name__ for step in runner.pipeline.steps[:3]]
        ['BrowserExecuteStep', 'BrowserToTrace', 'KnownStep']
    """

    integration: ClassVar[str] = "browser_use"
    execute_step = BrowserExecuteStep
    to_trace = BrowserToTrace

    @classmethod
    def build_steps(
        cls,
        browser_llm: BaseChatModel | str,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        browser: BrowserProfile | BrowserSession | None = None,
        **options: Any,
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that `from_roles` composes, to inspect or change.

        Args:
            browser_llm: The model that drives the browser.
            reflector: The reflector.
            skill_manager: The skill manager.
            skillbook: The book that the steps write; the runner over them needs the same one.
            browser: A `BrowserProfile` or a `BrowserSession`.
            **options: The other arguments of `from_roles`.
        """
        return super().build_steps(
            browser_llm,
            reflector=reflector,
            skill_manager=skill_manager,
            skillbook=skillbook,
            browser=browser,
            **options,
        )

    @classmethod
    def from_roles(
        cls,
        browser_llm: BaseChatModel | str,
        *,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        browser: BrowserProfile | BrowserSession | None = None,
        site_skills: bool = False,
        **options: Any,
    ) -> Self:
        """Make a runner of two roles; the browser agent is the third.

        Args:
            browser_llm: The model that drives the browser: one of browser-use, or a model string of LiteLLM.
            reflector: Who finds out what a run teaches.
            skill_manager: Who turns that into operations.
            browser: A `BrowserProfile` or a `BrowserSession`; by default a headless browser for each run.
            site_skills: Whether what a run on one site teaches is for that site only: its skills get a section such as
                `site:harbour.example`, and are shown on its pages only.
            **options: Those of `BrowserExecuteStep`, such as max_steps, timeout and all that an `Agent`
                takes; and those of every runner, such as skillbook_path and dedup_config; see
                `ace.runners.LearningSettings`.

        Raises:
            TypeError: This is not a model of browser-use, or there is no such option.
            ValueError: An option is invalid, or two exclude each other.
        """
        return super().from_roles(
            browser_llm,
            reflector=reflector,
            skill_manager=skill_manager,
            browser=browser,
            site_skills=site_skills,
            **options,
        )

    @classmethod
    def from_model(
        cls,
        browser_llm: BaseChatModel | str,
        *,
        ace_model: str = "gpt-4o-mini",
        ace_max_tokens: int = 2048,
        ace_llm: LLMClientLike | None = None,
        browser: BrowserProfile | BrowserSession | None = None,
        **options: Any,
    ) -> Self:
        """Make a runner whose two roles use one model.

        Args:
            browser_llm: The model that drives the browser.
            ace_model: The model that learns.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client that is taken instead of `ace_model`.
            browser: A `BrowserProfile` or a `BrowserSession`; by default a headless browser for each run.
            **options: Those of `from_roles`.
        """
        return super().from_model(
            browser_llm, ace_model=ace_model, ace_max_tokens=ace_max_tokens, ace_llm=ace_llm, browser=browser, **options
        )

    @classmethod
    def _steps(
        cls, args: tuple[Any, ...], *, site_skills: bool = False, **options: Any
    ) -> tuple[list[StepProtocol[ACEStepContext]], Skillbook, LearningSettings]:
        steps, skillbook, settings = super()._steps(args, **options)
        # Before they are proven, so that what is proven is what is applied.
        place = next(at for at, step in enumerate(steps) if isinstance(step, UpdateStep)) + 1
        return [*steps[:place], SiteSkillsStep(for_new_skills=site_skills), *steps[place:]], skillbook, settings

    @classmethod
    def _step_options(cls) -> frozenset[str]:
        own = frozenset(inspect.signature(BrowserExecuteStep).parameters) - {"agent_kwargs"}
        return own | agent_arguments()
