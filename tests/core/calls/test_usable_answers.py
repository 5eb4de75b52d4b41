"""One loop asks models again: its answers count once, whoever asks, and its error carries those of this call."""

import asyncio
from contextlib import nullcontext

import pytest

from ace.calls import (
    AnswerProblem,
    RejectedAnswer,
    answer_budget,
    current_answer_budget,
    finished,
    until_usable,
)
from ace.protocols import UnusableAnswerError


class Model:
    """Gives the answers of a list, and keeps what it was told of those that were rejected."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.told: list[RejectedAnswer | None] = []

    async def ask(self, rejected: RejectedAnswer | None) -> str:
        self.told.append(rejected)
        return self.answers.pop(0)


def number(answer: str) -> int:
    if not answer.isdigit():
        raise AnswerProblem("answer with a number")
    return int(answer)


async def asked(model: Model, *, max_retries: int = 2, role: str = "") -> int:
    return await until_usable(model.ask, number, text_of=str, max_retries=max_retries, role=role)


def test_a_model_is_told_what_was_wrong_with_its_last_answer() -> None:
    model = Model("four", "IV", "4")
    assert finished(asked(model)) == 4
    assert model.told == [
        None,
        ("four", "answer with a number"),
        ("IV", "answer with a number; your last 2 answers could not be used, so answer differently"),
    ]


def test_a_model_that_repeats_its_answer_is_never_told_the_same_twice() -> None:
    model = Model(*["four"] * 5)
    with pytest.raises(UnusableAnswerError, match=r"after 5 answers: answer with a number$"):
        finished(asked(model, max_retries=4))
    assert len(set(model.told)) == 5


def test_the_error_carries_all_answers_and_the_role() -> None:
    with pytest.raises(UnusableAnswerError, match=r"^Reflector: .* after 2 answers: answer with a number$") as raised:
        finished(asked(Model("a", "b", "never asked for"), max_retries=1, role="Reflector"))
    assert raised.value.raw_answers == ("a", "b")


def test_no_retries_are_one_answer() -> None:
    model = Model("a")
    with pytest.raises(UnusableAnswerError, match="after 1 answer:"):
        finished(asked(model, max_retries=0))


def test_the_budget_around_it_ends_it_sooner_and_the_error_has_the_answers_of_this_call_only() -> None:
    with answer_budget(3) as budget:
        budget.record("of another call")
        with pytest.raises(UnusableAnswerError) as raised:
            finished(asked(Model("a", "b"), max_retries=5))
        assert budget.left == 0
    assert raised.value.raw_answers == ("a", "b")


@pytest.mark.parametrize("is_open", [False, True])
def test_an_answer_that_was_recorded_where_it_was_given_counts_once(is_open: bool) -> None:
    answers = ["a", "b", "c", "never asked for"]

    async def ask(rejected: RejectedAnswer | None) -> str:
        answer = answers.pop(0)
        budget = current_answer_budget()
        assert budget is not None  # a client that asks again by itself finds one
        budget.record(answer)
        return answer

    with answer_budget(3) if is_open else nullcontext(), pytest.raises(UnusableAnswerError) as raised:
        finished(until_usable(ask, number, text_of=str, max_retries=2))
    assert raised.value.raw_answers == ("a", "b", "c")
    assert current_answer_budget() is None


def test_another_error_of_the_reader_is_not_an_unusable_answer() -> None:
    def read(answer: str) -> int:
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        finished(until_usable(Model("a").ask, read, text_of=str, max_retries=2))


def test_loops_on_one_event_loop_do_not_share_a_budget() -> None:
    async def main() -> list[int]:
        async def slow(model: Model) -> int:
            async def ask(rejected: RejectedAnswer | None) -> str:
                await asyncio.sleep(0)
                return await model.ask(rejected)

            return await until_usable(ask, number, text_of=str, max_retries=1)

        return await asyncio.gather(*(slow(Model("x", str(index))) for index in range(5)))

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]
