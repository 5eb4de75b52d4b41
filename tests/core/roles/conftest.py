"""Both ways to a structured answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ace.protocols import (
    LLMClientLike,
)
from ace.providers import wrap_with_instructor


@pytest.fixture(params=["litellm", "instructor"])
def wrap(request: pytest.FixtureRequest) -> Callable[[LLMClientLike], LLMClientLike]:
    return wrap_with_instructor if request.param == "instructor" else lambda client: client
