from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.providers import LiteLLMClient
from ace.roles import Agent, Reflector, SkillManager
from ace.roles.prompts import AGENT_PROMPT, REFLECTOR_PROMPT, SKILL_MANAGER_PROMPT, PromptTemplate

LLM = LiteLLMClient("gpt-4o-mini")
ROLES: list[tuple[Any, str, str]] = [
    (Agent, AGENT_PROMPT, "{question}"),
    (Reflector, REFLECTOR_PROMPT, "{question} or {trace}"),
    (SkillManager, SKILL_MANAGER_PROMPT, "{reflection}"),
]


@pytest.mark.parametrize(("role", "prompt", "needed"), ROLES)
def test_a_bad_template_fails_at_construction(role: Any, prompt: str, needed: str) -> None:
    name = role.__name__
    with pytest.raises(ValueError, match=f"of {name} has the unknown placeholder {{qestion}}"):
        role(LLM, prompt + "{qestion}")
    with pytest.raises(ValueError, match=f"of {name} lacks the placeholder {needed}"):
        role(LLM, "Do something.")
    for malformed in ("{question", "question}"):
        with pytest.raises(ValueError, match="Double literal braces"):
            role(LLM, f"{prompt} {malformed}")
    for malformed in ("{}", "{0}", "{question!r}", "{question:>9}", "{question.x}"):
        with pytest.raises(ValueError, match=f"has the placeholder {re.escape(malformed)}; .* Double literal braces"):
            role(LLM, f"{prompt} {malformed}")


@pytest.mark.parametrize(("role", "prompt", "needed"), ROLES)
def test_the_constructors_are_the_same(role: Any, prompt: str, needed: str) -> None:
    assert role(LLM).prompt_template == prompt
    smallest = needed.split(" or ")[-1]
    assert role(LLM, prompt_template=smallest, max_retries=0).prompt_template == smallest
    with pytest.raises(ValueError, match="max_retries"):
        role(LLM, max_retries=-1)


@pytest.mark.parametrize("role", [Agent, Reflector, SkillManager])
@pytest.mark.parametrize("template", [5, b"{question} {reflection}", None])
def test_a_template_that_is_no_text(role: Any, template: object) -> None:
    with pytest.raises(TypeError, match="prompt_template must be a str, got "):
        role(LLM, template)


def test_every_known_placeholder_may_be_used() -> None:
    Agent(LLM, "{question}{context}{skillbook}{reflection}{current_date}")
    Reflector(LLM, "{trace}")
    Reflector(LLM, "{question}{reasoning}{answer}{ground_truth}{feedback}{trace}{skillbook_excerpt}")
    SkillManager(LLM, "{reflection}{skillbook}{stats}{progress}{question_context}")


@given(value=st.text(), literal=st.text(alphabet="ab{} \n"))
def test_values_and_doubled_braces_come_out_as_they_are(value: str, literal: str) -> None:
    doubled = literal.replace("{", "{{").replace("}", "}}")
    template = PromptTemplate(f"{doubled}{{question}}{doubled}", role="R", known=["question"], needed=["question"])
    assert template.fill({"question": value}) == f"{literal}{value}{literal}"
