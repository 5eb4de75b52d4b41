"""The page of model servers says what the table of quirks decides."""

from docs import model_servers_page


def test_the_page_of_model_servers_is_up_to_date() -> None:
    page = model_servers_page.page()
    assert model_servers_page.PAGE.read_text("utf-8") == page, "run python -m docs.model_servers_page"
