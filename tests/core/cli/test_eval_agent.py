"""`ace eval --agent`: the user's own agent, a real command, is asked with and without the skills."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from tests.support.command_line import Done, Run, ace
from tests.support.corrected_runs import RULE

KNOWS = f"""
import sys
text = sys.argv[1] + (open(sys.argv[2]).read() if len(sys.argv) > 2 else "")
print("You have 14 days." if {RULE!r} in text else "You have 30 days.")
"""


def command(folder: Path, code: str, *arguments: str) -> str:
    """A command line that runs a program with the arguments."""
    program = folder / "agent.py"
    program.write_text(code, encoding="utf-8")
    return shlex.join([sys.executable, str(program), *arguments])


def scored(thing: str) -> dict[str, str]:
    """A run whose right answer is known."""
    question = f"How many days do I have to return the {thing}?"
    return {"question": question, "answer": "You have 30 days.", "ground_truth": "14"}


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    for thing in ("kettle", "lamp", "chair"):
        (tmp_path / "traces" / f"{thing}.json").write_text(json.dumps(scored(thing)), encoding="utf-8")
    with Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("returns", RULE)


def test_the_command_is_asked_without_and_with_the_skills(tmp_path: Path) -> None:
    agent = command(tmp_path, KNOWS, "{question}")
    done = ace("eval", "traces", "--agent", agent, folder=tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("Accuracy 0.0% without skills, 100.0% with them: +100.0 points")
    assert f"answering 3 samples, 6 answers in all, with the command {agent}" in done.err


def test_the_skills_can_be_in_a_file(here: Run, tmp_path: Path) -> None:
    agent = command(tmp_path, KNOWS, "{question}", "{skills_file}")
    done = here("eval", "traces", "--agent", agent, "--json")
    assert done.code == 0, done.err
    [accuracy] = [measure for measure in done.data["measures"] if measure["name"] == "accuracy"]
    assert (accuracy["baseline"]["value"], accuracy["learned"]["value"]) == (0.0, 1.0)


def test_no_shell_sees_the_question(here: Run, tmp_path: Path) -> None:
    odd = scored('kettle {skills_file} $(touch made) `touch made`; touch made "quoted"')
    Path("odd.json").write_text(json.dumps(odd), encoding="utf-8")
    code = (
        "import sys, json; open('said.json', 'a').write(json.dumps(sys.argv[1:]) + '\\n'); print('You have 14 days.')"
    )
    done = here("eval", "odd.json", "--agent", command(tmp_path, code, "-q", "Task: {question}"))
    assert done.code == 0, done.err
    first, second = (json.loads(line) for line in Path("said.json").read_text(encoding="utf-8").splitlines())
    assert first == ["-q", f"Task: {odd['question']}"]
    assert RULE in second[1] and second[1].endswith(odd["question"])
    assert not Path("made").exists()


def wrong(here: Run, agent: str, *options: str) -> Done:
    done = here("eval", "traces", "--agent", agent, *options)
    assert (done.code, done.out) == (2, "")
    return done


def test_a_command_that_cannot_be_run_is_named_before_anything_is_asked(here: Run) -> None:
    assert "has no argument {question}" in wrong(here, "my-agent").err
    assert "there is no program 'no-such-agent'" in wrong(here, "no-such-agent {question}").err
    assert "--agent: No closing quotation" in wrong(here, "my-agent '{question}").err
    assert "--agent-timeout must be more than 0 seconds" in wrong(here, "cat {question}", "--agent-timeout", "0").err


def test_a_command_that_always_fails_is_not_started_for_each_question(here: Run, tmp_path: Path) -> None:
    code = "import sys; open('starts', 'a').write('x'); sys.exit('no such model: gpt-9')"
    done = wrong(here, command(tmp_path, code, "{question}"))
    assert "the command of --agent has answered no question" in done.err
    assert "failed with exit code 1: no such model: gpt-9" in done.err
    assert Path("starts").read_text(encoding="utf-8") == "xxx"


def test_a_question_at_which_the_command_fails_counts_as_wrong(here: Run, tmp_path: Path) -> None:
    code = "import sys\nif 'lamp' in sys.argv[1]: sys.exit(3)\nprint('You have 14 days.')"
    done = here("eval", "traces", "--agent", command(tmp_path, code, "{question}"))
    assert done.code == 1
    assert done.out.startswith("Accuracy 66.7% without skills, 66.7% with them")
    assert "2 of 6 answers failed and count as wrong" in done.err
    assert "failed with exit code 3" in done.err


def test_a_command_that_hangs_is_killed(here: Run, tmp_path: Path) -> None:
    code = "import subprocess\nsubprocess.run(['sleep', '600'])"
    done = wrong(here, command(tmp_path, code, "{question}"), "--agent-timeout", "0.5")
    assert "gave no answer within 0.5 s; --agent-timeout allows more" in done.err


def test_kept_answers_of_a_command_are_not_asked_for_again(here: Run, tmp_path: Path) -> None:
    agent = command(tmp_path, f"{KNOWS}\nopen('starts', 'a').write('x')", "{question}")
    first, second = (here("eval", "traces", "--agent", agent, "--answers", "a.jsonl", "--json") for _ in range(2))
    assert first.data == second.data
    assert Path("starts").read_text(encoding="utf-8") == "x" * 6
