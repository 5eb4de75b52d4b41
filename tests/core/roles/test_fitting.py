from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ace.roles.rendering import Section, cut_middle, fit, fitted_sections

MARK_SIZE = 45


@given(texts=st.lists(st.text(max_size=400), max_size=8), room=st.integers(0, 2000))
def test_all_together_fit_and_the_cut_is_counted(texts: list[str], room: int) -> None:
    fitted = fit(texts, room)
    assert sum(len(text.encode()) for text in fitted.texts) <= max(room, 0) + MARK_SIZE * len(texts)
    for before, after, cut in zip(texts, fitted.texts, fitted.cuts, strict=True):
        if cut == 0:
            assert after in (before, f"{before}\n[... 0 characters cut here ...]\n")
        else:
            head, _, tail = after.partition(f"\n[... {cut} characters cut here ...]\n")
            assert before.startswith(head)
            assert before.endswith(tail)
            assert len(head) + len(tail) + cut == len(before)


@given(st.text(min_size=1, max_size=300), st.integers(MARK_SIZE, 500))
def test_a_cut_text_keeps_head_and_tail(text: str, room: int) -> None:
    after, cut = cut_middle(text, room)
    assert (after == text) == (len(text.encode()) <= room)
    assert len(after.encode()) <= room + 3
    assert cut >= 0


def test_short_texts_are_not_cut_for_the_sake_of_a_long_one() -> None:
    fitted = fit(["short one", "x" * 100_000, "short two"], 1000)
    assert (fitted.texts[0], fitted.texts[2]) == ("short one", "short two")
    assert fitted.texts[1].startswith("xxx")
    assert fitted.texts[1].endswith("xxx")
    assert fitted.cut_characters == fitted.cuts[1] > 98_000


def test_of_many_steps_each_stays_visible_as_long_as_there_is_room() -> None:
    sections = [Section(f"[{n}] call search", "y" * (100_000 if n == 7 else 50)) for n in range(20)]
    text, cut = fitted_sections(sections, 20_000)
    assert len(text) <= 20_000 + MARK_SIZE
    assert all(f"[{n}] call search" in text for n in range(20))
    assert f"{cut} characters cut here" in text


def test_of_too_many_steps_the_middle_is_cut() -> None:
    sections = [Section(f"[{n}]", "z" * 50) for n in range(10_000)]
    text, cut = fitted_sections(sections, 5000)
    assert len(text) <= 5000 + MARK_SIZE
    assert "[0]" in text
    assert "[9999]" in text
    assert f"{cut} characters cut here" in text
