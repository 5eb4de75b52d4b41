"""A folder with everything in it that a folder should not have: the good is learned, the rest is named."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedServer

MEASURED = (
    "import ctypes, json, os, resource, subprocess, sys\n"
    "if os.geteuid() == 0:  # root reads everything: the command is to have neither of the rights to do so\n"
    "    for right in (1, 2):\n"
    "        assert ctypes.CDLL(None).prctl(24, right, 0, 0, 0) == 0\n"
    "done = subprocess.run(sys.argv[1:], capture_output=True, text=True)\n"
    "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024\n"
    "print(json.dumps({'code': done.returncode, 'out': done.stdout, 'err': done.stderr, 'megabytes': peak}))\n"
)
TINY_FILES = 2_000
LARGE_RECORDS = 120


def fill(folder: Path) -> None:
    folder.mkdir()
    (folder / "good.jsonl").write_text('{"task": "t", "answer": "LESSON good"}\n', encoding="utf-8")
    (folder / "empty.jsonl").write_text("", encoding="utf-8")
    (folder / "cut.json").write_text('{"task": "t", "ans', encoding="utf-8")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (folder / "secret.jsonl").write_text('{"task": "LESSON secret"}', encoding="utf-8")
    (folder / "secret.jsonl").chmod(0)
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    with (folder / "large.jsonl").open("w", encoding="utf-8") as file:
        for number in range(LARGE_RECORDS):
            record = {"task": f"t{number}", "answer": f"LESSON w{number % 3} " + "word " * 200_000}
            file.write(f"{json.dumps(record)}\n")
    tiny = folder / "tiny"
    tiny.mkdir()
    for number in range(TINY_FILES):
        (tiny / f"{number:05}.json").write_text("[]" if number else '{"task": "LESSON tiny"}', encoding="utf-8")


def learned(folder: Path, path: str, server: ScriptedServer) -> dict[str, object]:
    command = [str(ACE), "learn", path, "--skillbook", f"{path}.db", "--json"]
    reached = ["--model", "openai/scripted", "--api-base", server.api_base]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command, *reached],
        cwd=folder,
        env=command_environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_good_is_learned_in_little_memory_and_the_rest_is_named(tmp_path: Path, server: ScriptedServer) -> None:
    # Two skills, so that they are compared, as those of the folder are.
    lines = ['{"task": "LESSON little"}', '{"task": "LESSON small"}']
    (tmp_path / "little.jsonl").write_text("\n".join(lines), encoding="utf-8")
    little = learned(tmp_path, "little.jsonl", server)
    fill(tmp_path / "folder")
    much = learned(tmp_path, "folder", server)
    assert (little["code"], much["code"]) == (0, 1), much["err"]
    assert much["err"] == ""
    report = json.loads(str(much["out"]))
    assert report["traces"]["learned"] == LARGE_RECORDS + 2
    assert {skill["content"] for skill in report["new_skills"]} == {
        f"Remember LESSON {word}." for word in ("good", "w0", "w1", "w2", "tiny")
    }
    reasons = {failure["place"]: failure["reason"] for failure in report["failures"]}
    expected = {
        "empty.jsonl": "empty",
        "cut.json#1": "damaged",
        "picture.png": "an image",
        "secret.jsonl": "no permission",
        "loop": "itself",
        "up": "folder above",
    }
    assert len(reasons) == len(expected), "an empty list holds nothing that could be lost"
    assert [name for name, reason in expected.items() if reason not in reasons[f"folder/{name}"]] == []
    assert int(str(much["megabytes"])) - int(str(little["megabytes"])) < 100
