"""The main job with the model that is the default, on this machine: learn from a trace, then ask."""

from pathlib import Path

from ace.providers.local import DEFAULT_MODEL
from ace.providers.local.model_files import models_folder
from ace.skillbook import Skillbook
from tests.support.command_line import ace
from tests.support.local_models import needed_model

TRACE = Path(__file__).resolve().parents[3] / "examples" / "traces" / "branch-name.json"
QUESTION = "How must I name the git branch for ticket 731, which adds a dark mode to the settings page?"


def test_what_is_learned_is_stored_with_its_trace_and_cited_in_the_next_answer(tmp_path: Path) -> None:
    needed_model(DEFAULT_MODEL)
    environ = {"ACE_MODELS": str(models_folder())}
    learned = ace("learn", TRACE, "--max-tokens", "256", "--json", folder=tmp_path, environ=environ)
    assert (learned.code, learned.err) == (0, "")
    assert learned.data["model"] == f"local/{DEFAULT_MODEL}"
    assert learned.data["model_use"]["cost"] == 0

    with Skillbook.open(tmp_path / "skills.db") as book:
        (skill,) = book.skills()
    assert skill.section and skill.content.strip()
    (source,) = skill.sources
    assert source.trace_id.endswith(TRACE.name) and "Ticket 512" in source.sample_question

    answered = ace("ask", QUESTION, "--max-tokens", "256", "--json", folder=tmp_path, environ=environ)
    assert answered.code == 0
    assert answered.data["answer"].strip()
    assert [cited["id"] for cited in answered.data["skills"]] == [skill.id]
