"""Texts are embedded once, by content, across objects and processes; a broken cache costs no vector."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ace.providers import CachedEmbedder


class Recording:
    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        self.asked += texts
        return [[self.scale * len(text), 1 / 3] for text in texts]


def test_only_new_texts_reach_the_model_and_vectors_come_back_as_they_were(tmp_path: Path) -> None:
    model = Recording()
    path = tmp_path / "deep" / "vectors.db"
    assert CachedEmbedder(model, model="m", path=path).embed(["one", "three", "one"]) == [
        [3.0, 1 / 3],
        [5.0, 1 / 3],
        [3.0, 1 / 3],
    ]
    assert CachedEmbedder(model, model="m", path=path).embed(["three", "fourth"]) == [[5.0, 1 / 3], [6.0, 1 / 3]]
    assert model.asked == ["one", "three", "fourth"]


def test_vectors_of_different_models_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    CachedEmbedder(Recording(), model="small", path=path).embed(["one"])
    assert CachedEmbedder(Recording(10), model="large", path=path).embed(["one"]) == [[30.0, 1 / 3]]


def test_the_texts_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    CachedEmbedder(Recording(), model="m", path=path).embed(["a very private text"])
    assert b"private" not in path.read_bytes()


def test_a_broken_cache_is_logged_and_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "vectors.db"
    path.write_bytes(b"this is no database, " * 100)
    with caplog.at_level(logging.WARNING):
        assert CachedEmbedder(Recording(), model="m", path=path).embed(["one"]) == [[3.0, 1 / 3]]
    assert "vectors.db: the cache of embeddings cannot be used" in caplog.text
    assert path.read_bytes() == b"this is no database, " * 100


PROGRAM = """
import sys
from ace.providers import CachedEmbedder
class Model:
    def embed(self, texts):
        return [[float(len(text))] for text in texts]
for number in range(40):
    CachedEmbedder(Model(), model="m", path=sys.argv[1]).embed([f"{sys.argv[2]}-{number}", f"shared-{number}"])
"""


def test_processes_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "vectors.db"
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), str(number)], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert [process.communicate()[1] for process in running] == [""] * 4
    model = Recording()
    CachedEmbedder(model, model="m", path=path).embed([f"{n}-{k}" for n in range(4) for k in range(40)])
    assert model.asked == []
