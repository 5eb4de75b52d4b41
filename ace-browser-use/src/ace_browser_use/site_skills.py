"""Skills of one site: they are only shown on its pages, and removed when a run on the site disproves them.

Such a skill is in a section `site:HOST`, such as `site:harbour.example`; the name contains the port unless it is the
default port of the scheme. The skill applies to the pages of that host and of its subdomains.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ace import Skillbook
from ace.context import ACEStepContext, SelectedSkills, SkillbookView
from ace.integrations import Record, checked_class, list_in, mapping_in, wrap_skillbook_for_external_agent
from ace.skill import Skill
from ace.updates import UpdateBatch, UpdateOperation
from ace_browser_use.result import BrowserStep

if TYPE_CHECKING:
    from browser_use import Agent

__all__ = ["ShownSkills", "SiteSkillsStep", "site_of", "sites_in", "skills_text"]

_SITE = "site:"
_USUAL_PORTS = {"http": 80, "https": 443}


def site_of(address: str) -> str:
    """Return the site of an address; empty if it is not a web address.

    Args:
        address: The address of a page.

    Example:
        >>> [site_of(address) for address in ("https://Harbour.example:443/", "http://127.0.0.1:8000/", "about:blank")]
        ['harbour.example', '127.0.0.1:8000', '']
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:  # such as a port that is not a number
        return ""
    if parts.scheme not in _USUAL_PORTS:
        return ""
    return host if port in (None, _USUAL_PORTS[parts.scheme]) else f"{host}:{port}"


def sites_in(steps: Iterable[BrowserStep]) -> list[str]:
    """Return the sites that an agent visited, in order.

    Args:
        steps: The steps of the agent.
    """
    seen = (site_of(address) for step in steps for address in (step["url"], step["arrived_at"]))
    return list(dict.fromkeys(filter(None, seen)))


def skills_text(skillbook: SkillbookView, site: str, budget_tokens: int | None = None) -> str:
    """Render the skills for an agent on a page: those for every site, and those of the page's site.

    Args:
        skillbook: The skillbook to render.
        site: The site of the page; empty without a page.
        budget_tokens: The maximum size of the skills, in tokens; None includes all of them.

    Example:
        >>> book = Skillbook()
        >>> _ = book.add_skill("forms", "Read the labels.")
        >>> _ = book.add_skill("site:harbour.example", "Accept the cookies first.")
        >>> sites = ["", "harbour.example", "www.harbour.example", "x.example"]
        >>> ["cookies" in skills_text(SkillbookView(book), site) for site in sites]
        [False, True, True, False]
    """
    skills = [skill for skill in skillbook.skills() if skill.is_active]
    chosen = [skill for skill in skills if not _is_of_a_site(skill) or _is_for(skill, site)]
    if len(chosen) < len(skills):
        skillbook = SelectedSkills(SkillbookView(Skillbook()), chosen)
    return wrap_skillbook_for_external_agent(skillbook, budget_tokens)


class ShownSkills:
    """The skills in the system message of one agent, which change with the site of the page.

    Args:
        skillbook: The skillbook. It is read once, so that an agent keeps its skills while other runs learn.
        budget_tokens: The maximum size of the skills, in tokens; None includes all of them.
    """

    text: str
    """The current skills in the system message; at first, those for every site."""

    def __init__(self, skillbook: SkillbookView, budget_tokens: int | None) -> None:
        self._has_sites = any(_is_of_a_site(skill) for skill in skillbook.skills())
        self._skillbook = SelectedSkills(skillbook, skillbook.skills()) if self._has_sites else skillbook
        self._budget_tokens = budget_tokens
        self._site = ""
        self.text = skills_text(self._skillbook, "", budget_tokens)

    def before(
        self, and_then: Callable[[Any], Awaitable[None]] | None
    ) -> Callable[[Agent[Any, Any]], Awaitable[None]] | None:
        """Return the hook for the beginning of each step; None if none is needed.

        Args:
            and_then: The hook of the caller, which is called afterwards.
        """
        if not self._has_sites:
            return and_then

        async def on_step_start(agent: Agent[Any, Any]) -> None:
            self._show(agent, site_of(await agent.browser_session.get_current_page_url()))
            if and_then is not None:
                await and_then(agent)

        return on_step_start

    def _show(self, agent: Agent[Any, Any], site: str) -> None:
        if site == self._site:
            return
        text = skills_text(self._skillbook, site, self._budget_tokens)
        message = agent.state.message_manager_state.history.system_message
        assert message is not None, "browser-use makes it with the agent"
        before, found, after = message.text.rpartition(self.text) if self.text else (f"{message.text}\n", "", "")
        assert found or not self.text, "browser-use keeps the text that extends its system message"
        message.content = f"{before}{text}{after}"
        self._site, self.text = site, text


@checked_class
class SiteSkillsStep:
    """Reviews the operations of a run: assigns new skills to the site of the run, and removes skills that it disproves.

    A skill of a site is removed if a run on that site cites it and fails, and the Reflector calls it harmful, unless
    the same run changes its text or the skill is pinned. A skillbook that is a store can undo this with a rollback.

    In a `BrowserUse` pipeline, this step is before the one that applies the operations; put it there in other
    pipelines, too.

    Args:
        for_new_skills: Whether new skills of a run on exactly one site are added to the section of that site. After a
            run on several sites, it is not known to which of them a skill applies.
    """

    requires = frozenset({"trace", "reflection", "skillbook", "skill_manager_output"})
    provides = frozenset({"skill_manager_output"})
    lane = "skillbook"
    max_workers = 1

    def __init__(self, *, for_new_skills: bool = False) -> None:
        self.for_new_skills = for_new_skills

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Replace the operations of the context by the reviewed ones."""
        batch = ctx.skill_manager_output
        if batch is None or not isinstance(ctx.trace, dict):
            return ctx
        sites = [str(site) for site in list_in(mapping_in(ctx.trace, "metadata"), "sites")]
        operations = list(batch.operations)
        if self.for_new_skills and len(sites) == 1:
            operations = [_for_site(operation, sites[0]) for operation in operations]
        operations += _removals(ctx, ctx.trace, sites, operations)
        return ctx.replace(skill_manager_output=UpdateBatch(batch.reasoning, operations))


def _for_site(operation: UpdateOperation, site: str) -> UpdateOperation:
    if operation.type != "ADD" or operation.section.startswith(_SITE):
        return operation
    return dataclasses.replace(operation, section=f"{_SITE}{site}")


def _removals(
    ctx: ACEStepContext, trace: Record, sites: Iterable[str], operations: Iterable[UpdateOperation]
) -> list[UpdateOperation]:
    """Return the operations that remove the skills that a failed run disproved."""
    if trace.get("success") is not False or ctx.reflection is None or ctx.skillbook is None:
        return []
    changed = {operation.skill_id for operation in operations if operation.type in ("UPDATE", "REMOVE")}
    blamed = [judged.id for judged in ctx.reflection.skill_tags if judged.tag == "harmful"]
    removals = []
    for skill_id in dict.fromkeys(blamed):
        skill = ctx.skillbook.get_skill(skill_id)
        if skill is None or not skill.is_active or skill.pinned or skill_id in changed:
            continue
        if skill_id in list_in(trace, "skill_ids") and any(_is_for(skill, site) for site in sites):
            reason = f"A run on {skill.section.removeprefix(_SITE)} followed it and failed."
            removals.append(UpdateOperation("REMOVE", skill_id=skill_id, justification=reason))
    return removals


def _is_of_a_site(skill: Skill) -> bool:
    return skill.section.startswith(_SITE)


def _is_for(skill: Skill, site: str) -> bool:
    own = skill.section.removeprefix(_SITE).strip().lower()
    return _is_of_a_site(skill) and bool(site) and (site == own or site.endswith(f".{own}"))
