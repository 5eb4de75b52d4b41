"""Devices, pipes, sockets and streams without an end: named with the reason, and the rest is learned."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ace.cli.inputs import GatheredTraces, gather_traces
from ace.logs import Run, read_runs
from tests.support.command_line import ACE, ace, command_environment
from tests.support.scripted_server import ScriptedServer

GATHER = (
    "import sys\nfrom ace.cli.errors import UsageError\nfrom ace.cli.inputs import RunFilter, gather_traces\n"
    "try:\n"
    "    with gather_traces(sys.argv[1:], wanted=RunFilter(max_bytes=200_000)) as gathered:\n"
    "        for trace in gathered.traces: print(trace.place, trace.record.load()['question'])\n"
    "        for problem in gathered.problems: print(problem.place, problem.reason, sep=': ')\n"
    "except UsageError as error: print(error)\n"
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(gathered: GatheredTraces) -> dict[str, str]:
    return {problem.place: problem.reason for problem in gathered.problems}


def gathered_in_shell(line: str) -> str:
    """Run a line of the shell, where `$GATHER` gathers its arguments and prints what it found."""
    line = line.replace("$GATHER", f"'{sys.executable}' -c \"$0\"")
    return subprocess.run(["bash", "-c", line, GATHER], capture_output=True, text=True, check=True, timeout=120).stdout


def test_what_has_no_end_in_a_folder_is_named_and_the_rest_taken() -> None:
    folder = Path("t")
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"task": "t"}\n', encoding="utf-8")
    for name, target in (("zero", "/dev/zero"), ("null", "/dev/null"), ("random", "/dev/urandom")):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("t/socket")
        with gather_traces(["t"]) as gathered:
            assert [trace.place for trace in gathered.traces] == ["t/a.jsonl#1"]
            assert problems(gathered) == {
                "t/null": "a device, not a file",
                "t/pipe": "a pipe, not a file",
                "t/random": "a device, not a file",
                "t/socket": "a socket, not a file",
                "t/zero": "a device, not a file",
            }
        with gather_traces(["t/a.jsonl", "t/zero", "t/socket", "/dev/urandom"]) as gathered:
            assert problems(gathered) == {
                "t/zero": "a device, not a file",
                "t/socket": "a socket, not a file",
                "/dev/urandom": "a device, not a file",
            }


def test_a_named_pipe_is_read_when_a_program_writes_into_it_and_reported_when_none_does() -> None:
    os.mkfifo("pipe")
    os.mkfifo("lonely")
    Path("a.jsonl").write_text('{"task": "t"}\n', encoding="utf-8")

    def write() -> None:
        Path("pipe").write_text('{"task": 1}\n{"task": 2}\n', encoding="utf-8")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with gather_traces(["pipe", "lonely", "a.jsonl"]) as gathered:
        assert [trace.place for trace in gathered.traces] == ["pipe#1", "pipe#2", "a.jsonl#1"]
        assert problems(gathered) == {"lonely": "no program wrote into this pipe within 10 s"}
    writer.join()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("yes | $GATHER -", "'-' can be used; stdin: "),
        ("yes '{\"a\": 1}' | $GATHER -", "at most 200 kB are read of one input (the setting max_input_mb)"),
        ("$GATHER - </dev/zero", "stdin: an empty file"),
        ("head -c 150000 /dev/urandom | gzip | cat - /dev/zero | $GATHER -", "at most 200 kB are read"),
        ("(printf '\\x89PNG'; cat /dev/zero) | $GATHER -", "stdin: an image"),
        ("cat /dev/urandom | $GATHER -", "stdin: binary data"),
        ("$GATHER - </dev/null", "stdin: an empty file"),
        ("$GATHER <(yes)", "at most 200 kB are read"),
        ("$GATHER <(true)", "an empty file"),
        ('$GATHER <(echo \'{"task": "one"}\')', " one"),
        ("yes | $GATHER /dev/stdin", "at most 200 kB are read"),
        ("$GATHER /dev/stdin </dev/zero", "a device, not a file"),
        ("seq 60000 >large.txt; $GATHER large.txt", "large.txt: 349 kB; at most 200 kB are read"),
        ("truncate -s 1T sparse.jsonl; $GATHER sparse.jsonl", "sparse.jsonl: 1"),
        ("$GATHER /proc/kcore", "/proc/kcore"),
        ("$GATHER /dev/full /dev/tty /dev/ptmx", "a device, not a file"),
    ],
)
def test_endless_streams_and_large_files_are_refused_with_the_reason(line: str, expected: str) -> None:
    printed = gathered_in_shell(line)
    count = 4 if "/dev/full" in line else 1  # several inputs are listed, one a line
    assert expected in printed and len(printed.splitlines()) == count, printed


def test_a_log_that_grows_while_it_is_read_has_an_end() -> None:
    path = Path("a.jsonl")
    path.write_text('{"task": "t"}\n' * 3, encoding="utf-8")
    found = []
    for run in read_runs(path):
        assert isinstance(run, Run)
        found.append(run.task)
        with path.open("a", encoding="utf-8") as file:
            file.write('{"task": "t"}\n' * 3)
    assert found == ["t"] * 3


def test_the_limit_is_a_setting_and_no_temporary_file_is_left(
    tmp_path: Path, server: ScriptedServer, model: list[str]
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "a.jsonl").write_text('{"task": "LESSON a"}\n', encoding="utf-8")
    (tmp_path / "ace.toml").write_text("max_input_mb = 0.5\n", encoding="utf-8")
    environment = {**command_environment(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    line = 'yes | "$0" learn - a.jsonl --json "$@"'
    done = subprocess.run(
        ["bash", "-c", line, str(ACE), *model], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 1 and b"500 kB are read of one input" in done.stdout, done
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "max_input_mb" in ace("config", folder=tmp_path).out
    wrong = ace("learn", "a.jsonl", folder=tmp_path, environ={"ACE_MAX_INPUT_MB": "-1"})
    assert wrong.code == 2 and "ACE_MAX_INPUT_MB" in wrong.err
