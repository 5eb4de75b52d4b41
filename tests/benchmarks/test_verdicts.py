"""The benchmark of verdicts, by code alone and with a scripted judge."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.verdicts.__main__ import main, pairs
from tests.support.scripted_server import ScriptedRequest, ScriptedServer


def test_half_of_sixty_answers_are_right() -> None:
    found = pairs()
    assert (len(found), sum(pair.passes for pair in found)) == (60, 30)
    assert len({(pair.question, pair.answer) for pair in found}) == 60


def test_code_judges_two_thirds_of_them_and_hardly_any_of_these_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.endswith("41 of 60 judged right, 18 not judged\n")


@pytest.mark.parametrize(("is_good", "status"), [(True, 0), (False, 1)])
def test_the_rest_is_asked_of_the_model(is_good: bool, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    passing = {(pair.question, " ".join(pair.answer.split())): pair.passes for pair in pairs()}

    def script(request: ScriptedRequest) -> Any:
        lines = request.text.splitlines()
        question = next(line for line in reversed(lines) if line.startswith("Question: ")).removeprefix("Question: ")
        answer = next(line for line in reversed(lines) if line.startswith("Answer: ")).removeprefix("Answer: ")
        return {"difference": "none", "passes": passing[question, answer] is is_good}

    with ScriptedServer(script) as server:
        assert main(["--model", "openai/scripted", "--api-base", server.api_base]) == status
        assert len(server.requests) == 18
    assert ("59 of 60" in capsys.readouterr().out) is is_good
