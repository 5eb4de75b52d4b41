"""`ace ask`: the answer depends on the skills."""

from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Run, ace
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def book(tmp_path: Path) -> Path:
    with Skillbook.open(tmp_path / "skills.db") as opened:
        opened.add_skill("lessons", "Remember LESSON harbour.")
    return tmp_path / "skills.db"


def test_the_answer_uses_a_skill_and_names_it(tmp_path: Path, book: Path, model: list[str]) -> None:
    before = book.read_bytes()
    done = ace("ask", "What about the harbour?", *model, folder=tmp_path)
    assert (done.code, done.out) == (0, "LESSON harbour\n")
    assert done.err.splitlines()[1:] == ["[lessons-00001] Remember LESSON harbour."]
    assert book.read_bytes() == before


def test_without_skills_the_model_sees_none(here: Run, book: Path, model: list[str], server: ScriptedServer) -> None:
    done = here("ask", "What about the harbour?", "--without-skills", *model)
    assert (done.code, done.out, done.err.count("\n")) == (0, "unknown\n", 1)
    assert "LESSON harbour" not in server.requests[-1].text


def test_the_json_object_has_its_schema(tmp_path: Path, book: Path, model: list[str]) -> None:
    done = ace("ask", "-", "--json", *model, folder=tmp_path, stdin="What about the harbour?")
    assert set(done.data) == {"schema", "command", "model", "place", "answer", "reasoning", "skills", "model_use"}
    assert done.data["schema"] == 1
    assert done.data["skills"] == [{"id": "lessons-00001", "content": "Remember LESSON harbour."}]
    assert done.data["model_use"]["calls"] == 1


@pytest.mark.parametrize(("arguments", "named"), [(["What?", "--skillbook", "none.db"], "none.db"), ([" "], "empty")])
def test_a_mistake_is_told_before_the_model_is_asked(
    here: Run, tmp_path: Path, model: list[str], server: ScriptedServer, arguments: list[str], named: str
) -> None:
    done = here("ask", *arguments, *model)
    assert done.code == 2 and named in done.err and done.err.count("\n") == 1
    assert server.requests == []
    assert not (tmp_path / "none.db").exists()


def test_a_key_that_is_refused_is_one_sentence(here: Run, book: Path, model: list[str]) -> None:
    done = here("ask", "What?", *model, environ={"ACE_API_KEY": "the-wrong-key"})
    assert done.code == 2 and "refused the key" in done.err and "the-wrong-key" not in done.err


@pytest.mark.parametrize("model", ["", "local/qwen2.5-coder-1.5b"])
def test_a_key_in_the_settings_does_not_keep_a_local_model_from_being_used(
    tmp_path: Path, here: Run, book: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.setenv("ACE_MODELS", str(tmp_path / "no models"))
    monkeypatch.setenv("ACE_API_KEY", "sk-of-a-server")
    monkeypatch.setenv("ACE_MODEL", model)
    done = here("ask", "What now?")
    assert done.code == 2
    assert "the model 'qwen2.5-coder-1.5b' must be fetched first" in done.err


@pytest.mark.parametrize("model", ["", "local/qwen2.5-coder-1.5b"])
def test_an_address_for_a_local_model_is_wrong_usage(here: Run, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setenv("ACE_MODEL", model)
    monkeypatch.setenv("ACE_API_BASE", "http://ann:s3cret-pw@localhost:9/v1")
    done = here("ask", "What now?")
    assert (done.code, "s3cret" in done.err) == (2, False)
    assert "but the api_base 'http://localhost:9/v1' (variable ACE_API_BASE) is the address of a server" in done.err


@pytest.mark.parametrize(
    "address", ["ftp://ann:s3cret-pw@host/v1", "ann:s3cret-pw@host:80/v1", "http://ann:s3cret-pw@[::1", "http://"]
)
def test_what_is_not_an_address_is_shown_without_its_password(here: Run, address: str) -> None:
    done = here("ask", "What now?", "--model", "openai/x", "--api-base", address)
    assert (done.code, "s3cret" in done.err) == (2, False)
    assert "is not an address" in done.err


@pytest.mark.parametrize("command", [["ask", "-"], ["skillbook", "add", "maths", "-"]], ids=" ".join)
def test_standard_input_that_is_not_utf_8_is_refused(tmp_path: Path, command: list[str]) -> None:
    done = ace(*command, folder=tmp_path, environ={"PYTHONIOENCODING": "utf-8:strict"}, stdin="café".encode("latin-1"))
    assert (done.code, done.err) == (2, "ace: standard input is not UTF-8 text (byte 3)\n")
    assert list(tmp_path.iterdir()) == []
