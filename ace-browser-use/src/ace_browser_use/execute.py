"""`BrowserExecuteStep`, which runs a browser-use agent with the skills in the prompt."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ace.context import ACESample, ACEStepContext, SkillbookView
from ace.integrations import checked_class, extract_cited_skill_ids
from ace.pipeline import PipelineCancelled, cancel_token_var
from ace_browser_use.agent_settings import check_agent_arguments, checked_model, for_one_agent
from ace_browser_use.framework import load
from ace_browser_use.history import read_history
from ace_browser_use.logs import words_of
from ace_browser_use.outcome import outcome_of
from ace_browser_use.redaction import secrets_redactor
from ace_browser_use.result import BrowserResult, BrowserStep
from ace_browser_use.session import OpenSession, is_shared, open_session
from ace_browser_use.site_skills import ShownSkills
from ace_browser_use.watching import HOOKS, OutOfTimeError, WatchedHooks, taking_turns, to_the_end, until_done

if TYPE_CHECKING:
    from browser_use import Agent, BrowserProfile, BrowserSession
    from browser_use.llm.base import BaseChatModel

__all__ = ["BrowserExecuteStep"]

_LAST_WORDS = 10.0
"""The time that an agent has to clean up after its run was stopped, in seconds."""
_logger = logging.getLogger(__name__)
_LONGEST_LOOK = 2.0
_LOOK = """() => {
    const [entry] = performance.getEntriesByType("navigation");
    return JSON.stringify([location.href, entry ? entry.responseStatus : 0]);
}"""


@checked_class
class BrowserExecuteStep:
    """Runs a browser-use agent with the skills in the prompt, and puts a `BrowserResult` on the trace.

    A failure in the run is recorded: the result has `success=False`, the error, and everything that happened before it.
    Misuse and cancellation are raised. In every case, the browser is closed first.

    The skills are added to the system message. (In the task, browser-use could mistake parts of them for addresses.)
    Skills in a section `site:HOST` are only in the prompt while the agent is on a page of that site.

    Args:
        browser_llm: The model that drives the browser: one of browser-use, or a model string of LiteLLM.
        browser: A `BrowserProfile`, with which each run starts its own browser; by default a headless one. Or a
            `BrowserSession`, or a profile with a fixed `user_data_dir` or `cdp_url`, which the runs use one at a time.
            A session with `keep_alive` stays open, and can only be used in one event loop.
        max_steps: The maximum number of steps of a run.
        timeout: The time limit of a run, in seconds.
        skill_budget_tokens: The maximum size of the skills, in tokens; None includes all skills.
        **agent_kwargs: Other arguments of a browser-use `Agent`, such as `tools`, `sensitive_data`, `use_vision` or
            `extend_system_message`, and `on_step_start` and `on_step_end`. The judge and the signal handler are off by
            default; `use_judge` and `enable_signal_handler` turn them on.

    Raises:
        TypeError: The model is not a model of browser-use, or an agent does not have an argument.
        ValueError: An argument is out of range.
        ImportError: `browser-use` is not installed.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __init__(
        self,
        browser_llm: BaseChatModel | str,
        browser: BrowserProfile | BrowserSession | None = None,
        *,
        max_steps: int = 50,
        timeout: float | None = None,
        skill_budget_tokens: int | None = None,
        **agent_kwargs: Any,
    ) -> None:
        check_agent_arguments(agent_kwargs)
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps!r}")
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be more than 0 seconds, got {timeout!r}")
        self.browser_llm = checked_model(browser_llm)
        self.browser = browser
        self.max_steps = max_steps
        self.timeout = timeout
        self.skill_budget_tokens = skill_budget_tokens
        self.agent_kwargs = {"use_judge": False, "enable_signal_handler": False, **agent_kwargs}
        self._turns = Lock() if is_shared(browser) else None

    async def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Run the task of the sample and set `trace` to the result.

        Raises:
            TypeError: The sample is neither a text nor a sample.
            FileNotFoundError: No browser was found on this machine.
            PipelineCancelled: The run was cancelled.
        """
        if ctx.sample is None or ctx.skillbook is None:
            raise ValueError("BrowserExecuteStep needs the context fields 'sample' and 'skillbook'; one is None")
        return ctx.replace(trace=await self.execute(ctx.sample, ctx.skillbook))

    async def execute(self, task: str | ACESample, skillbook: SkillbookView) -> BrowserResult:
        """Run one task and return its result.

        Args:
            task: The task, as a text or as the question of a sample.
            skillbook: The skills for the prompt.

        Raises:
            TypeError: The task is neither a text nor a sample.
            FileNotFoundError: No browser was found on this machine.
            PipelineCancelled: The run was cancelled.
            Exception: A hook of the caller, such as `on_step_end`, raised it.
        """
        question, context = _asked(task)
        skills = ShownSkills(skillbook, self.skill_budget_tokens)
        async with taking_turns(self._turns):
            start = time.monotonic()
            opened = open_session(self.browser)
            watch = WatchedHooks()
            hooks = {
                name: watch.watched(name, self.agent_kwargs[name]) for name in HOOKS if self.agent_kwargs.get(name)
            }
            statuses = PageStatuses(hooks.pop("on_step_end", None))
            on_step_start = skills.before(hooks.pop("on_step_start", None))
            try:
                agent = self._agent(f"{question}\n\n{context}" if context else question, skills.text, opened, hooks)
            except BaseException:
                await to_the_end(_closed_unused(opened))
                raise
            opened.guard(Path(agent.agent_directory))
            running = agent.run(max_steps=self.max_steps, on_step_start=on_step_start, on_step_end=statuses.look)
            broke_off = await self._run(running, agent, opened, watch)
            return self._result(agent, question, context, skillbook, broke_off, statuses, time.monotonic() - start)

    def _agent(
        self, task: str, skills: str, opened: OpenSession, hooks: Mapping[str, Callable[..., Any]]
    ) -> Agent[Any, Any]:
        arguments = for_one_agent({**self.agent_kwargs, **hooks, "llm": self.browser_llm})
        arguments.pop("on_step_start", None)
        arguments.pop("on_step_end", None)
        said = arguments.pop("extend_system_message", None)
        arguments["extend_system_message"] = "\n\n".join(filter(None, (said, skills))) or None
        agent: Agent[Any, Any] = load("browser_use", needed_by="BrowserExecuteStep").Agent(
            task=task, browser_session=opened.session, **arguments
        )
        return agent

    async def _run(
        self, work: Coroutine[Any, Any, Any], agent: Agent[Any, Any], opened: OpenSession, watch: WatchedHooks
    ) -> str:
        """Await the work of an agent and close its browser; return the error if it failed."""
        running = asyncio.ensure_future(work)
        try:
            await until_done(running, self.timeout, cancel_token_var.get(), watch)
        except (PipelineCancelled, asyncio.CancelledError):
            raise
        except OutOfTimeError as error:
            return str(error)
        except Exception as error:
            if error is watch.error:
                raise
            return f"the run failed: {type(error).__name__}: {error}"
        finally:
            await to_the_end(_closed(running, agent, opened))
        return ""

    def _result(
        self,
        agent: Agent[Any, Any],
        question: str,
        context: str,
        skillbook: SkillbookView,
        broke_off: str,
        statuses: PageStatuses,
        seconds: float,
    ) -> BrowserResult:
        secrets = secrets_redactor(self.agent_kwargs.get("sensitive_data"))
        seen = read_history(agent.history, secrets)
        history = replace(
            seen,
            steps=secrets.redact_value(statuses.put_into(seen.steps)),
        )
        outcome = outcome_of(history, broke_off=secrets.redact(broke_off), max_steps=self.max_steps)
        cited = extract_cited_skill_ids(f"{words_of(history.steps)}\n{history.last_word}")
        return BrowserResult(
            task=secrets.redact(question),
            success=outcome.success,
            output=history.last_word,
            error=outcome.error,
            steps_count=len(history.steps),
            duration_seconds=seconds,
            # A page may contain texts that look like the id of a skill.
            cited_skill_ids=tuple(found for found in cited if skillbook.get_skill(found) is not None),
            chronological_steps=history.steps,
            raw_history=agent.history,
            problems=outcome.problems,
            context=secrets.redact(context),
            usage=history.usage,
        )


def _asked(task: object) -> tuple[str, str]:
    if isinstance(task, str):
        return task, ""
    if isinstance(task, ACESample):
        return task.question, task.context
    raise TypeError(f"a task for the browser is a text or a sample, not a {type(task).__name__}")


async def _closed_unused(opened: OpenSession) -> None:
    await opened.close(was_cut_off=False)
    await opened.release()


async def _closed(running: asyncio.Task[Any], agent: Agent[Any, Any], opened: OpenSession) -> None:
    was_cut_off = not running.done()
    if was_cut_off:
        # A cancellation may be lost in what the agent awaits (asyncio.wait_for of Python 3.11 can lose one), so the
        # agent is also told to begin no other step, and is cancelled again.
        agent.stop()
        for _ in range(2):
            running.cancel()
            await asyncio.wait({running}, timeout=_LAST_WORDS / 2)
    if running.done() and not running.cancelled():
        running.exception()  # asyncio logs exceptions that are never retrieved
    await opened.close(was_cut_off=was_cut_off or running.cancelled() or running.exception() is not None)
    # The screenshots.
    await asyncio.to_thread(shutil.rmtree, agent.agent_directory, ignore_errors=True)
    await opened.release()


class PageStatuses:
    """Reads the status of the page at the end of each step of one run.

    Args:
        and_then: The hook of the caller, which is called afterwards.
    """

    def __init__(self, and_then: Callable[[Any], Awaitable[None]] | None = None) -> None:
        self._and_then = and_then
        self._seen: dict[int, tuple[str, int]] = {}

    async def look(self, agent: Agent[Any, Any]) -> None:
        """Read the status of the agent's page. An error is ignored, so that the run continues.

        Args:
            agent: The agent, at the end of a step.
        """
        try:
            url, status = await asyncio.wait_for(_status_of(agent), _LONGEST_LOOK)
        except Exception:
            _logger.debug("the status of the page could not be read", exc_info=True)
        else:
            self._seen[len(agent.history.history)] = (url, status)
        if self._and_then is not None:
            await self._and_then(agent)

    def put_into(self, steps: Iterable[BrowserStep]) -> tuple[BrowserStep, ...]:
        """Return the steps with the page and the status at the end of each.

        Args:
            steps: The steps of the same run.
        """
        return tuple(self._with_status(step) for step in steps)

    def _with_status(self, step: BrowserStep) -> BrowserStep:
        url, status = self._seen.get(step["number"], ("", 0))
        return {**step, "arrived_at": url, "http_status": status or None}


async def _status_of(agent: Agent[Any, Any]) -> tuple[str, int]:
    page = await agent.browser_session.get_current_page()
    if page is None:
        return "", 0
    url, status = json.loads(await page.evaluate(_LOOK))
    return str(url), int(status)
