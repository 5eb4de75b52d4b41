import dataclasses
from functools import cached_property
from types import MappingProxyType

import pytest

from ace.pipeline import StepContext

from .sample_steps import PageContext


def test_replace_changes_one_field_of_a_new_context() -> None:
    before = PageContext(sample=1, text="one")
    after = before.replace(text="two")
    assert (before.text, after.text, after.sample) == ("one", "two", 1)
    assert type(after) is PageContext
    assert after == PageContext(sample=1, text="two")


def test_replace_works_again_and_again() -> None:
    ctx = PageContext(sample=0)
    for number in range(5):
        ctx = ctx.replace(words=number, text=str(number))
    assert ctx == PageContext(sample=0, text="4", words=4)


def test_a_context_needs_no_sample() -> None:
    assert StepContext().sample is None
    assert PageContext(text="one").replace(text="two") == PageContext(sample=None, text="two")


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
def test_an_unknown_field_is_named_with_its_class(warm: bool) -> None:
    ctx = PageContext(sample=1)
    if warm:
        ctx = ctx.replace(text="x").replace(text="y")
    with pytest.raises(TypeError, match=r"PageContext has no field 'txet'; its fields are: sample, metadata, text"):
        ctx.replace(txet="x")


def test_contexts_cannot_be_changed_in_place() -> None:
    ctx = PageContext(sample=1).replace(text="x").replace(text="y")
    with pytest.raises(dataclasses.FrozenInstanceError):
        ctx.text = "z"  # type: ignore[misc]  # that this is refused is what is tested


def test_metadata_is_a_read_only_copy_of_the_dict_that_was_given() -> None:
    given = {"a": 1}
    ctx = StepContext(sample=1, metadata=given)  # type: ignore[arg-type]  # a plain dict is wrapped at run time
    given["a"] = 2
    assert ctx.metadata == {"a": 1}
    with pytest.raises(TypeError):
        ctx.metadata["a"] = 3  # type: ignore[index]  # that this is refused is what is tested
    replaced = ctx.replace(metadata={"b": 2}).replace(sample=2)
    assert isinstance(replaced.metadata, MappingProxyType)
    assert replaced.metadata == {"b": 2}


def test_replace_runs_the_post_init_of_a_subclass() -> None:
    @dataclasses.dataclass(frozen=True)
    class Checked(StepContext):
        size: int = 0

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.size < 0:
                raise ValueError("negative")

    ctx = Checked(sample=1).replace(size=1).replace(size=2)
    with pytest.raises(ValueError, match="negative"):
        ctx.replace(size=-1)


def test_replace_does_not_carry_over_what_was_computed_from_the_old_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Measured(StepContext):
        text: str = ""

        @cached_property
        def length(self) -> int:
            return len(self.text)

    ctx = Measured(sample=1, text="four").replace(text="three").replace(text="four")
    assert ctx.length == 4
    assert ctx.replace(text="three").length == 5


def test_replace_knows_the_fields_of_a_subclass_with_slots() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Slotted(StepContext):
        text: str = ""

    ctx = Slotted(sample=1).replace(text="a").replace(text="b")
    assert (ctx.sample, ctx.text) == (1, "b")


def test_a_subclass_does_not_inherit_what_its_parent_has_learned_of_its_fields() -> None:
    PageContext(sample=1).replace(text="x").replace(text="y")

    @dataclasses.dataclass(frozen=True)
    class Rated(PageContext):
        rating: int = 0

    assert Rated(sample=1).replace(rating=3).replace(text="z") == Rated(sample=1, text="z", rating=3)
