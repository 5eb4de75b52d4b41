"""What a user's own history stores is what was said, without the skills."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from ace_langchain.calling import CALLS
from tests.langchain.models import in_turn, text_of
from tests.langchain.steps import SKILL, run

CONFIG: Any = {"configurable": {"session_id": "7"}}


# LangChain advises checkpointers now; chains with a history remain.
@pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["dict", "messages", "bound"])
def test_skills_are_not_stored_in_the_history(kind: str, call: Any) -> None:
    history, model = InMemoryChatMessageHistory(), in_turn("one", "two")
    with_history: Any
    if kind == "messages":
        with_history = RunnableWithMessageHistory(model, lambda session_id: history)
    else:
        prompt = ChatPromptTemplate([("system", "You watch."), MessagesPlaceholder("past"), ("user", "{question}")])
        with_history = RunnableWithMessageHistory(
            prompt | model, lambda session_id: history, input_messages_key="question", history_messages_key="past"
        )
    if kind == "bound":
        with_history = with_history.with_config(tags=["x"])
    for text in ("First?", "Second?"):
        item: Any = [("user", text)] if kind == "messages" else {"question": text}
        result = run(with_history, item, config=CONFIG, call=call)
        assert (result.success, result.task, result.error) == (True, text, None)
    assert [text_of(seen).count(SKILL) for seen in model.seen] == [1, 1]
    assert [message.content for message in history.messages] == ["First?", "one", "Second?", "two"]
