"""Skills of one site are shown on its pages only, learned for it, and removed when the site proves them wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ace import ACEStepContext, Skillbook, SkillbookView
from ace.outputs import ReflectorOutput
from ace.updates import UpdateBatch, UpdateOperation
from ace_browser_use import BrowserUse, SiteSkillsStep
from ace_browser_use.site_skills import site_of
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.browser_use.steps import acting, run
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

HARBOUR = "harbour.example"
TRACE = {"success": False, "skill_ids": ["site-00001"], "metadata": {"sites": [HARBOUR]}}


def is_shown(request: ScriptedRequest) -> bool:
    return harbour.RULE in json.dumps(request.messages[0])


def page_address(request: ScriptedRequest) -> str:
    """Where the agent is in this step: the only tab that it has."""
    found = re.findall(r"http://127\.0\.0\.1:\d+/\S*", harbour.page_of(request).partition("Interactive")[0])
    return found[-1] if found else ""


@pytest.mark.usefixtures("no_browser_is_left")
def test_a_skill_is_shown_on_the_pages_of_its_site_only(site: Site) -> None:
    with Site() as other:
        addresses = [f"{other.address}/plain", f"{site.address}/plain", f"{other.address}/plain"]

        def script(request: ScriptedRequest) -> Any:
            told = sum(harbour.is_of_browser(call) for call in server.requests)
            if told <= len(addresses):
                return acting({"navigate": {"url": addresses[told - 1], "new_tab": False}})
            return acting({"done": {"text": "I have been there.", "success": True, "files_to_display": []}})

        with ScriptedServer(script) as server:
            skills = Skillbook()
            skills.add_skill(f"site:{site_of(site.address)}", harbour.RULE)
            skills.add_skill("forms", "Read the labels.")
            model = harbour.browser_llm(server)
            runner = BrowserUse.from_model(
                model,
                ace_llm=client_for(server),
                browser=harbour.profile(),
                skillbook=skills,
                extend_system_message="Be polite.",
            )
            step: Any = runner.pipeline.steps[0]
            result = run(step, "Look at the offices.", SkillbookView(skills))
            asked = [request for request in server.requests if harbour.is_of_browser(request)]
    assert result.success, result.error
    pages = [site_of(page_address(request)) for request in asked]
    here, there = site_of(site.address), site_of(other.address)
    assert pages == ["", there, here, there]
    assert [is_shown(request) for request in asked] == [page == here for page in pages]
    for request in asked:
        system = json.dumps(request.messages[0])
        assert (system.count("Read the labels."), system.count("Be polite.")) == (1, 1)
        assert system.count("# Skills learned from earlier runs") == 1


@pytest.mark.usefixtures("no_browser_is_left")
def test_a_skill_is_learned_for_its_site_and_expires_when_the_site_has_changed(site: Site) -> None:
    def script(request: ScriptedRequest) -> Any:
        if request.role == "skill_manager":
            is_new = f'"learning": "{harbour.RULE}"' in request.text
            operation = {"type": "ADD", "section": "cookies", "content": harbour.RULE}
            return {"reasoning": "", "operations": [operation] if is_new else []}
        answer = harbour.script(request)
        followed = re.findall(r"By \[([\w-]+)\] I accept", request.text)
        if request.role == "reflector" and isinstance(answer, dict) and followed and "The task failed" in request.text:
            judged = [{"id": id, "tag": "harmful"} for id in dict.fromkeys(followed)]
            return {**answer, "extracted_learnings": [], "skill_tags": judged}
        return answer

    with Site() as other, ScriptedServer(script) as server:
        runner = BrowserUse.from_model(
            harbour.browser_llm(server), ace_llm=client_for(server), browser=harbour.profile(), site_skills=True
        )

        def book_at(place: Site, ship: str) -> dict[str, Any]:
            server.clear()
            (result,) = runner.run([f"Book a berth for {ship} at {place.address}/ please"])
            assert result.error is None and result.output is not None
            trace: Any = result.output.trace
            return dict(trace)

        first, second = book_at(site, "Ada"), book_at(site, "Bee")
        assert (first["success"], second["success"]) == (False, True)
        assert second["metadata"]["sites"] == [site_of(site.address)]
        (skill,) = runner.skillbook.skills()
        assert (skill.section, skill.content) == (f"site:{site_of(site.address)}", harbour.RULE)
        assert second["skill_ids"] == [skill.id]

        # On another site, the agent does not see it.
        assert book_at(other, "Cat")["success"] is False
        assert not any(is_shown(request) for request in server.requests if harbour.is_of_browser(request))
        (of_other,) = (stored for stored in runner.skillbook.skills() if stored.id != skill.id)
        assert of_other.section == f"site:{site_of(other.address)}"

        site.is_rebuilt = True
        fourth = book_at(site, "Dot")
        assert (fourth["success"], fourth["skill_ids"]) == (False, [skill.id])
        assert [stored.id for stored in runner.skillbook.skills()] == [of_other.id]
        book_at(site, "Eve")
        assert not any(is_shown(request) for request in server.requests if harbour.is_of_browser(request))


def reviewed(
    trace: dict[str, Any], *operations: UpdateOperation, tag: str = "harmful", pinned: bool = False, **options: Any
) -> list[tuple[str, str]]:
    """What becomes of operations after a run whose reflection judges the skill of the harbour."""
    skills = Skillbook()
    skill = skills.add_skill(f"site:{HARBOUR}", harbour.RULE)
    if pinned:
        skills.update_skill(skill.id, pinned=True)
    judged = [{"id": skill.id, "tag": tag}]
    reflection = {"reasoning": "", "correct_approach": "", "key_insight": "", "skill_tags": judged}
    ctx = ACEStepContext(
        trace=trace,
        skillbook=SkillbookView(skills),
        reflection=ReflectorOutput.model_validate(reflection),
        skill_manager_output=UpdateBatch("", list(operations)),
    )
    batch = SiteSkillsStep(**options)(ctx).skill_manager_output
    assert batch is not None
    return [(operation.type, operation.skill_id or operation.section) for operation in batch.operations]


REMOVED = [("REMOVE", "site-00001")]


def test_a_skill_expires_only_where_its_own_site_has_proven_it_wrong() -> None:
    assert reviewed(TRACE) == REMOVED
    assert reviewed(TRACE, tag="neutral") == []
    assert reviewed(TRACE, pinned=True) == []
    assert reviewed({**TRACE, "success": True}) == []
    assert reviewed({**TRACE, "success": None}) == []
    assert reviewed({**TRACE, "skill_ids": []}) == []
    assert reviewed({**TRACE, "metadata": {"sites": ["quay.example"]}}) == []
    assert reviewed({**TRACE, "metadata": {"sites": ["quay.example", f"www.{HARBOUR}"]}}) == REMOVED
    corrected = UpdateOperation("UPDATE", skill_id="site-00001", content="Decline the cookies first.")
    assert reviewed(TRACE, corrected) == [("UPDATE", "site-00001")]


def test_new_skills_get_the_site_of_a_run_on_one_site_if_that_is_wanted() -> None:
    new = UpdateOperation("ADD", section="forms", content="Read the labels.")
    placed = UpdateOperation("ADD", section="site:quay.example", content="Read the labels.")
    fine = {**TRACE, "success": True}
    assert reviewed(fine, new) == [("ADD", "forms")]
    assert reviewed(fine, new, for_new_skills=True) == [("ADD", f"site:{HARBOUR}")]
    assert reviewed(fine, placed, for_new_skills=True) == [("ADD", "site:quay.example")]
    several = {**fine, "metadata": {"sites": [HARBOUR, "quay.example"]}}
    assert reviewed(several, new, for_new_skills=True) == [("ADD", "forms")]


@pytest.mark.parametrize(
    ("address", "site"),
    [("ftp://a.example", ""), ("https://a.example:x/", ""), ("http://[::1]:80/", "::1"), ("data:,x", "")],
)
def test_only_an_address_of_the_web_has_a_site(address: str, site: str) -> None:
    assert site_of(address) == site
