"""Own servers are asked to hold the model to the schema of the answer."""

from __future__ import annotations

import pytest

from ace.outputs import SkillTag
from ace.protocols import LLMCallError
from ace.providers import LiteLLMConfig
from tests.support.clients import client_for
from tests.support.scripted_server import Answer, HttpError, Reply, ScriptedRequest, ScriptedServer, in_turn

pytestmark = pytest.mark.usefixtures("each_transport")

TAG = {"id": "a-00001", "tag": "helpful"}


def test_an_own_server_is_asked_to_hold_the_model_to_the_schema() -> None:
    with ScriptedServer(in_turn(TAG)) as server:
        client_for(server).complete_structured("x", SkillTag)
        client_for(server).complete("x")
        held, free = (request.body for request in server.requests)
    asked = held["response_format"]["json_schema"]
    assert (asked["name"], asked["schema"]["required"]) == ("SkillTag", ["id", "tag"])
    assert "response_format" not in free


@pytest.mark.parametrize("status", [400, 422, 501])
def test_a_server_that_refuses_the_schema_is_asked_without_it_from_then_on(status: int) -> None:
    def script(request: ScriptedRequest) -> Reply:
        return HttpError(status, "no response_format") if "response_format" in request.body else Answer(TAG)

    with ScriptedServer(script) as server:
        client = client_for(server)
        answers = [client.complete_structured(text, SkillTag).id for text in "ab"]
        assert answers == ["a-00001"] * 2
        assert ["response_format" in request.body for request in server.requests] == [True, False, False]
        assert (client.usage.calls, client.usage.failed_requests) == (2, 1)


def test_a_server_that_stumbles_over_one_answer_is_held_again() -> None:
    with ScriptedServer(in_turn(HttpError(500), TAG)) as server:
        client = client_for(server)
        for text in "ab":
            client.complete_structured(text, SkillTag)
        assert ["response_format" in request.body for request in server.requests] == [True, False, True]


def test_a_request_that_is_refused_for_something_else_is_not_made_again() -> None:
    with ScriptedServer(in_turn(HttpError(400, "too long"))) as server:
        with pytest.raises(LLMCallError, match=r"after 1 request: .*too long"):
            client_for(server).complete_structured("x", SkillTag)
        assert len(server.requests) == 1


def test_a_busy_server_that_refuses_the_schema_keeps_the_number_of_requests_bounded() -> None:
    with ScriptedServer(in_turn(HttpError(503), HttpError(400, "unknown: json_schema"), HttpError(503))) as server:
        with pytest.raises(LLMCallError, match="after 4 requests"):
            client_for(server, max_retries=2).complete_structured("x", SkillTag)
        assert len(server.requests) == 4


def test_each_fallback_learns_for_itself_what_its_server_can() -> None:
    with ScriptedServer(in_turn(HttpError(404))) as bad, ScriptedServer(in_turn(TAG)) as good:
        other = LiteLLMConfig("openai/other", api_base=good.api_base)
        assert client_for(bad, fallbacks=[other]).complete_structured("x", SkillTag).id == "a-00001"
        assert "response_format" in good.requests[0].body
