"""The page of prompts shows what the roles send."""

from docs import prompts_page


def test_the_page_of_prompts_is_up_to_date() -> None:
    assert prompts_page.PAGE.read_text("utf-8") == prompts_page.page(), "run python -m docs.prompts_page"
