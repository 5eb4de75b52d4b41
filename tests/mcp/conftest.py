"""A user with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.clients import World
from tests.mcp.hanging_model import HangingModel
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ScriptedServer(learning_script()) as model:
        yield World(tmp_path, model)


@pytest.fixture
def hanging() -> Iterator[HangingModel]:
    model = HangingModel()
    with model.server:
        yield model
        model.let_go()
