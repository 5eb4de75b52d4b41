"""`BrowserUse`, the runner of browser agents that learn from their own runs."""

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
    """Runs tasks in a browser and learns skills from the outcome.

    `run` takes texts and samples. With `workers=N`, up to N browsers run at the same time.

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
            reflector: Analyses the outcome of a run.
            skill_manager: Turns the analysis into changes to the skillbook.
            skillbook: The skillbook that the steps change; a runner of these steps must have the same one.
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
        """Create a runner from two roles; the browser agent takes the place of the third.

        Args:
            browser_llm: The model that drives the browser: one of browser-use, or a model string of LiteLLM.
            reflector: Analyses the outcome of a run.
            skill_manager: Turns the analysis into changes to the skillbook.
            browser: A `BrowserProfile` or a `BrowserSession`; by default a headless browser for each run.
            site_skills: Whether new skills from a run on exactly one site apply to that site only: they are added to a
                section such as `site:harbour.example` and shown only on its pages.
            **options: The options of `BrowserExecuteStep`, such as `max_steps`, `timeout` and the arguments of an
                `Agent`; and those of every runner, such as `skillbook_path` and `dedup_config`, see
                `ace.runners.LearningSettings`.

        Raises:
            TypeError: The model is not a model of browser-use, or an option does not exist.
            ValueError: An option is invalid, or two options exclude each other.
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
        """Create a runner whose two roles use one model.

        Args:
            browser_llm: The model that drives the browser.
            ace_model: The model of the reflector and the skill manager.
            ace_max_tokens: The maximum length of its answers, in tokens.
            ace_llm: A client to use instead of `ace_model`.
            browser: A `BrowserProfile` or a `BrowserSession`; by default a headless browser for each run.
            **options: The options of `from_roles`.
        """
        return super().from_model(
            browser_llm, ace_model=ace_model, ace_max_tokens=ace_max_tokens, ace_llm=ace_llm, browser=browser, **options
        )

    @classmethod
    def _steps(
        cls, args: tuple[Any, ...], *, site_skills: bool = False, **options: Any
    ) -> tuple[list[StepProtocol[ACEStepContext]], Skillbook, LearningSettings]:
        steps, skillbook, settings = super()._steps(args, **options)
        # The step is before the proof, so that the operations that are proven are those that are applied.
        place = next(at for at, step in enumerate(steps) if isinstance(step, UpdateStep)) + 1
        return [*steps[:place], SiteSkillsStep(for_new_skills=site_skills), *steps[place:]], skillbook, settings

    @classmethod
    def _step_options(cls) -> frozenset[str]:
        own = frozenset(inspect.signature(BrowserExecuteStep).parameters) - {"agent_kwargs"}
        return own | agent_arguments()
