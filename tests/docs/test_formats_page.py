"""The page of formats says what the readers read."""

from docs import formats_page


def test_the_page_of_formats_is_up_to_date() -> None:
    assert formats_page.PAGE.read_text("utf-8") == formats_page.page(), "run python -m docs.formats_page"
