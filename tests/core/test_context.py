"""The context of the learning core and the view of the skillbook."""

from __future__ import annotations

import pytest

from ace.context import ACESample, ACEStepContext, SkillbookView
from ace.environments import Sample
from ace.protocols import SkillbookReader
from ace.skillbook import Skillbook


def test_the_defaults() -> None:
    ctx = ACEStepContext()
    fields = (ctx.sample, ctx.skillbook, ctx.trace, ctx.agent_output, ctx.reflection, ctx.skill_manager_output)
    assert fields == (None,) * 6
    numbers = (ctx.epoch, ctx.total_epochs, ctx.step_index, ctx.total_steps, ctx.global_sample_index)
    assert numbers == (1, 1, 0, None, 0)


def test_a_sample_of_ours_is_an_ace_sample() -> None:
    assert isinstance(Sample("q"), ACESample)
    assert not isinstance({"question": "q"}, ACESample)


def test_the_view_shows_the_book_as_it_is_now() -> None:
    book = Skillbook()
    view = SkillbookView(book)
    assert isinstance(view, SkillbookReader)
    assert (len(view), repr(view), list(view), view.as_prompt()) == (0, "SkillbookView(0 skills)", [], "")
    first = book.add_skill("maths", "Check the units.")
    second = book.add_skill("maths", "Check the sign.")
    book.remove_skill(second.id, soft=True)
    assert repr(view) == "SkillbookView(1 skills)"
    assert list(view) == view.skills() == [first]
    assert [skill.id for skill in view.skills(include_invalid=True)] == [first.id, second.id]
    assert view.get_skill(first.id) == first
    assert view.stats() == book.stats()
    assert view.as_prompt(format="json") == book.as_prompt(format="json")


WRITERS = ["add_skill", "update_skill", "tag_skill", "remove_skill", "merge_skills", "apply_update"]
FILES = ["save_to_file", "import_skills", "commit", "rollback", "deferred_commits", "set_embeddings"]


@pytest.mark.parametrize("name", WRITERS + FILES)
def test_the_view_has_no_method_that_writes(name: str) -> None:
    assert callable(getattr(Skillbook(), name))
    with pytest.raises(AttributeError):
        getattr(SkillbookView(Skillbook()), name)
