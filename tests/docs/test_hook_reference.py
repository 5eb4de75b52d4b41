"""The page on the hooks is what their source says."""

from ace.plugins import hooks
from docs.hook_reference import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python docs/hook_reference.py"


def test_every_hook_is_on_it() -> None:
    declared = {name for name in vars(hooks) if name.startswith("ace_")}
    assert declared == {f"ace_{kind}" for kind in hooks.HOOKS}
    for name in declared:
        assert f"\n## {name}\n" in page()
