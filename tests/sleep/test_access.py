"""What a program in a sandbox may use when it is granted access: its own home folder, and a few hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ace_sleep.bridge import Host
from ace_sleep.sandbox import Access, Place, Sandbox
from tests.sleep.test_sandbox import ISOLATING, copied, named
from tests.support.agent_sessions import new_repo
from tests.support.loopback import LoopbackHandler, LoopbackServer

ASK = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}:{}/').read().decode())\""


class _Handler(LoopbackHandler):
    def do_GET(self) -> None:
        self.send(200, self.headers["host"].encode())


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(_Handler) as started:
        yield started


@pytest.fixture(params=ISOLATING)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return named(str(request.param))


@pytest.fixture
def place(sandbox: Sandbox, tmp_path: Path) -> Place:
    return copied(new_repo(tmp_path / "shop"), tmp_path, sandbox)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "own" / "home").mkdir(parents=True)
    return tmp_path / "own" / "home"


def port_of(server: LoopbackServer) -> int:
    return urlsplit(server.url).port or 0


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_granted_host_is_reached(
    sandbox: Sandbox, place: Place, home: Path, server: LoopbackServer, name: str
) -> None:
    access = Access(home=home, hosts=[Host("nowhere.test", 443), Host(name, port_of(server))])
    for _ in range(2):
        found = sandbox.run(ASK.format(name, port_of(server)), place, access=access)
        assert (found.exit_code, found.output.strip()) == (0, f"{name}:{port_of(server)}")


def test_another_port_of_this_machine_is_not_reached(
    sandbox: Sandbox, place: Place, home: Path, server: LoopbackServer
) -> None:
    access = Access(home=home, hosts=[Host("localhost", 9)])
    assert not sandbox.run(ASK.format("localhost", port_of(server)), place, access=access).worked


def test_names_lead_to_the_bridge_also_at_the_ports_of_root(sandbox: Sandbox, place: Place, home: Path) -> None:
    access = Access(home=home, hosts=[Host("nowhere.test", 443), Host("elsewhere.test", 443)])
    connect = "import socket; print([socket.create_connection((n, 443)).getpeername()[0] for n in {}])"
    found = sandbox.run(f'python3 -c "{connect.format(["nowhere.test", "elsewhere.test"])}"', place, access=access)
    assert found.output.strip() == "['127.0.0.2', '127.0.0.3']"


def test_the_home_folder_remains(sandbox: Sandbox, place: Place, home: Path) -> None:
    (home / "given").write_text("a", encoding="utf-8")
    assert sandbox.run('cat "$HOME/given" && echo b > "$HOME/made"', place, access=Access(home=home)).output == "a"
    assert (home / "made").read_text("utf-8") == "b\n"


def test_an_address_that_no_name_leads_to_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.7 cannot be reached"):
        Host("10.0.0.7", 80).address(0)
