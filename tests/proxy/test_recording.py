"""What the recorder does when it cannot write, and what it leaves out."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from ace_proxy.conversations import Conversations
from ace_proxy.recording import Call, Recorder
from tests.proxy.world import chat, world


def call(conversations: Conversations, text: str) -> Call:
    items = [{"role": "user", "content": text}]
    conversation, new = conversations.begin(items)
    conversations.end(conversation, has_failed=False, now=0.0)
    return Call(conversation, "openai-chat", "m", "", new, status=200)


def test_a_loss_that_cannot_be_reported_does_not_end_recording(tmp_path: Path) -> None:
    folder = tmp_path / "proxy"
    folder.write_text("a file in its place")
    said: list[str] = []

    def tell(sentence: str) -> None:
        said.append(sentence)
        if len(said) == 1:
            raise OSError(28, "No space left on device")

    conversations = Conversations()
    files: list[Path] = []
    recorder = Recorder(folder, conversations, files.extend, silence=600, tell=tell)
    recorder.start()
    for number in range(3):
        recorder.add(call(conversations, str(number)))
    while recorder.lost < 3:
        pass
    folder.unlink()
    recorder.add(call(conversations, "4"))
    recorder.close()
    assert ["runs are not recorded" in sentence for sentence in said] == [True, True]
    assert len(files) == 1 and recorder.lost == 3


@pytest.mark.parametrize("size", [10, 5_000_000])
def test_of_images_only_the_size_is_recorded(tmp_path: Path, size: int) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}]}
    with world(tmp_path, lambda _: chat("A lamp.")) as proxy:
        httpx.post(f"{proxy.api}/chat/completions", json=body)
        assert proxy.server.seen[0].data == body
        [run] = proxy.runs()
    [file] = (proxy.folder / "runs").iterdir()
    assert file.stat().st_size < 1_000 and run.answer == "A lamp."


def test_only_the_user_can_read_what_is_recorded(tmp_path: Path) -> None:
    with world(tmp_path, lambda _: chat("Hi")) as proxy:
        httpx.post(f"{proxy.api}/chat/completions", json={"messages": [{"role": "user", "content": "one"}]})
        proxy.runs()
    [file] = (proxy.folder / "runs").iterdir()
    assert [oct(path.stat().st_mode)[-3:] for path in (file, file.parent)] == ["600", "700"]
