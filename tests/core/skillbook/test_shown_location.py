"""A location is shown to people without its password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from ace.skillbook import Skillbook, SkillbookFileError, shown_location

PASSWORD = "s3cr3tpw9"


@pytest.mark.parametrize(
    "location",
    [
        "postgresql://ann:{}@db/skills",
        "postgresql://ann:{}@db:5432/skills?user=bob@corp",
        "postgresql://:{}@db/skills",
        "https://{}@host/skills",
        "postgresql://ann:a/b@{}@db/skills",
        "postgresql://ann:{}#1@db/skills",
        "postgresql://ann:{}/x?y@db/skills",
        "postgresql://ann:12/{}@db/skills",
        "postgresql://ann:{}\nx@db/skills",
        "postgresql+psycopg://ann:{}@[::1]:5432/skills",
        "postgresql:/ann:{}@db/skills",  # what `Path` makes of it
        "postgresql://db/skills?user=ann&password={}",
        "postgresql://db/skills?user=ann&PASSWORD={}&sslmode=require",
        "postgresql://db/skills?pass%77ord={}",
        "postgresql://db/skills;pwd={}",
        "s3://bucket/skills?access_key={}",
        "s3://bucket/skills?X-Amz-Signature={}",
        "https://account.example/skills?sv=1&sig={}",
        "https://host/skills#access_token={}",
        "mssql://host/skills?odbc_connect=" + quote("SERVER=host;UID=ann;PWD=") + "{}",
    ],
)
def test_no_password_is_shown(location: str) -> None:
    shown = shown_location(location.format(PASSWORD))
    assert PASSWORD not in shown
    assert "[hidden]" in shown and shown.startswith(location.partition(":")[0])


@pytest.mark.parametrize(
    "location",
    [
        "skills.db",
        "notes/a:b@c.json",
        r"C:\Users\ann@corp\skills.db",
        "acme://team/skills",
        "acme://team/skills@v2",
        "acme://host:5432/skills?mode=shared&author_name=ann",
        "acme://team/skills?dataset=keyboard",
    ],
)
def test_what_is_no_password_stays(location: str) -> None:
    assert shown_location(location) == location
    assert shown_location(Path("skills.db")) == "skills.db"


def test_errors_of_the_skillbook_hide_it() -> None:
    location = f"acme://ann:{PASSWORD}@db/x"
    for use in (Skillbook.open, Skillbook.load_from_file, Skillbook().save_to_file):
        with pytest.raises(ValueError, match="no store is installed") as caught:
            use(location)
        assert PASSWORD not in str(caught.value)
    error = SkillbookFileError("it is damaged").at(location)
    assert PASSWORD not in str(error) and error.path == location
