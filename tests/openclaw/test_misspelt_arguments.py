"""A misspelt argument is answered with the right one, in the name of what the caller called."""

from __future__ import annotations

import pytest

import ace_openclaw
from tests.support import misspelt

MADE_BY_THE_PACKAGE = {"LearningReport", "StoredSession"}


@pytest.mark.parametrize(
    "name", [name for name in misspelt.callables_of(ace_openclaw) if name not in MADE_BY_THE_PACKAGE]
)
def test_every_public_callable_refuses_a_wrong_keyword_in_its_own_name(name: str) -> None:
    misspelt.check_refusal(ace_openclaw, name)
