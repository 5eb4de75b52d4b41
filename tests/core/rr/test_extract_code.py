"""`ExtractCodeStep`: where the code of an answer is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.protocols import LLMResponse
from ace.rr import ExtractCodeStep, RRIterationContext
from tests.support.reflection_script import REFLECTION


def extracted(text: str) -> RRIterationContext:
    return ExtractCodeStep()(RRIterationContext(llm_response=LLMResponse(text)))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Look:\n```python\nx = 1\n```\nand\n```py\nprint(x)\n```\n", "x = 1\n\nprint(x)\n"),
        ("```Python\nprint(1)\n```", "print(1)\n"),
        ("```json\n{}\n```\n```python\nprint(1)\n```", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("```\nnot python at all\n```\n```\nprint(2)\n```", "print(2)\n"),
        ("I run this:\n\n    x = 1\n    print(x)\n\nThen I stop.", "x = 1\nprint(x)"),
        ("I am done: FINAL({'a': '(', \"b\": [1, (2)]}) as you see", "FINAL({'a': '(', \"b\": [1, (2)]})"),
        ("FINAL(broken( and FINAL('yes')", "FINAL('yes')"),
        ("```python\nprint('cut off", "print('cut off"),
        ("<think>\n```python\nprint('no')\n```\n</think>\n```python\nprint('yes')\n```", "print('yes')\n"),
        ("~~~python\nprint(1)\n~~~", "print(1)\n"),
        ("  ```python\n  for x in y:\n      print(x)\n  ```", "for x in y:\n    print(x)\n"),
    ],
)
def test_code_is_found(text: str, code: str) -> None:
    assert extracted(text).code.strip() == code.strip()


@pytest.mark.parametrize(
    "text",
    [json.dumps(REFLECTION), json.dumps(REFLECTION, indent=4), f"```json\n{json.dumps(REFLECTION)}\n```"],
)
def test_an_answer_without_code_may_be_a_reflection(text: str) -> None:
    found = extracted(text)
    assert found.code == ""
    assert found.direct_response is not None
    assert found.direct_response.key_insight == REFLECTION["key_insight"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no Python code"),
        ("I would rather not.", "no Python code"),
        ("FINAL(", "no Python code"),
        ('{"reasoning": "r"}', "- correct_approach: Field required"),
    ],
)
def test_otherwise_the_model_is_told_what_to_send(text: str, problem: str) -> None:
    found = extracted(text)
    assert (found.code, found.direct_response) == ("", None)
    assert problem in found.problem


@given(st.text(alphabet="`~pyFINAL(){}[]'\"\\ \n\t:=1a", max_size=200))
def test_no_answer_breaks_the_search(text: str) -> None:
    found = extracted(text)
    assert found.code or found.direct_response or found.problem
