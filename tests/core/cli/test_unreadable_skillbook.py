"""A skillbook that the user may not open: the error says what to check, not that the file is damaged."""

import tempfile
from pathlib import Path

import pytest

from ace.cli.errors import UsageError
from ace.cli.skillbooks.opened_book import open_at
from ace.skillbook import Skillbook
from tests.support.users import ordinary_user


@pytest.mark.parametrize(("mode", "said"), [(0, "unable to open"), (0o444, "readonly")])
def test_a_store_without_permission_is_not_called_damaged(mode: int, said: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Skillbook.open(folder / "skills.db") as book:
            book.add_skill("maths", "Count.")
        (folder / "skills.db").chmod(mode)
        try:
            with ordinary_user(folder):
                folder.chmod(0o555)
                with pytest.raises(UsageError, match=said) as caught, open_at(str(folder / "skills.db")):
                    pass
        finally:
            folder.chmod(0o700)
    assert str(caught.value).endswith("; check that you may read and write it, and its folder")


def test_a_damaged_store_is_to_be_repaired(tmp_path: Path) -> None:
    (tmp_path / "skills.db").write_bytes(b"noise" * 1000)
    with pytest.raises(UsageError, match="repair it, or give another one"), open_at(str(tmp_path / "skills.db")):
        pass
