"""`ace mcp install` and `ace mcp uninstall`: the configuration files of the clients, in their real shapes."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace_mcp.installation import CLIENTS, InstallationError, Scope, config_file, install, server_entry, uninstall
from tests.support.command_line import Run, ace
from tests.support.json_texts import COMMENTED_TEXTS, JSON_TEXTS

COMMAND = {"command": sys.executable, "args": ["-E", "-P", "-m", "ace_mcp"]}
TYPED = {"type": "stdio", **COMMAND}

CLAUDE_CODE = """{
  "firstStartTime": "2026-11-23T20:18:40.841Z",
  "firstStartVersion": "2.1.329",
  "machineID": "1fcbc65f65b7e513",
  "seenNotifications": {},
  "projects": {
    "/home/me/shop": {
      "allowedTools": [],
      "mcpServers": {},
      "hasTrustDialogAccepted": true
    }
  },
  "mcpServers": {
    "tracker": {
      "type": "http",
      "url": "https://tracker.example/mcp"
    }
  },
  "migrationVersion": 15
}"""
CLAUDE_DESKTOP = """{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/me/Desktop"
      ]
    }
  }
}
"""
CURSOR = '{\n\t"mcpServers": {\n\t\t"docs": { "url": "http://127.0.0.1:3000/sse" }\n\t}\n}\n'
VSCODE = """{
    // asked for at the first start
    "inputs": [
        {"type": "promptString", "id": "tracker-key", "description": "Key", "password": true},
    ],
    "servers": {
        "tracker": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "tracker-mcp"],
            "env": {"TRACKER_KEY": "${input:tracker-key}"}, // never the key itself
        }, /* the last one */
    },
}
"""
FILES = {
    "claude-code": (".claude.json", CLAUDE_CODE),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP),
    "cursor": (".cursor/mcp.json", CURSOR),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
}


def files_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def laid_out(home: Path, client: str, text: str | None = None) -> Path:
    """Write the configuration of a client as it really looks."""
    name, real = FILES[client]
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((real if text is None else text).encode())
    return path


@pytest.mark.parametrize("client", FILES)
def test_an_installation_adds_one_entry_and_is_removed_to_the_byte(client: str, here: Run, tmp_path: Path) -> None:
    path = laid_out(tmp_path, client)
    path.chmod(0o640)
    before = files_below(tmp_path)
    done = here("mcp", "install", client)
    assert (done.code, done.err) == (0, "")
    assert str(path) in done.out

    text = path.read_text(encoding="utf-8")
    original = FILES[client][1]
    removed = [line[2:] for line in ndiff(original.splitlines(), text.splitlines()) if line.startswith("- ")]
    assert [f"{line}," in text for line in removed] in ([], [True])  # a line that only got a comma
    if client != "vscode":
        servers = json.loads(text)["mcpServers"]
        assert servers["ace"] == (COMMAND if client == "claude-desktop" else TYPED)
        assert list(servers) == [*json.loads(original)["mcpServers"], "ace"]

    installed = files_below(tmp_path)
    assert "Nothing to change" in here("mcp", "install", client).out
    assert files_below(tmp_path) == installed
    assert here("mcp", "uninstall", client).code == 0
    assert files_below(tmp_path) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("client", FILES)
def test_files_and_folders_that_did_not_exist_are_removed_again(client: str, here: Run, tmp_path: Path) -> None:
    assert here("mcp", "install", client).code == 0
    assert (tmp_path / FILES[client][0]).is_file()
    assert here("mcp", "uninstall", client).code == 0
    assert files_below(tmp_path) == {}


@pytest.mark.parametrize(
    ("client", "name"),
    [("claude-code", ".mcp.json"), ("cursor", ".cursor/mcp.json"), ("vscode", ".vscode/mcp.json")],
)
def test_a_project_has_its_own_configuration(client: str, name: str, here: Run, tmp_path: Path) -> None:
    project = tmp_path / "shop"
    project.mkdir()
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    assert here("mcp", "install", client, "--scope", "project", folder=project, environ=home).code == 0
    [servers] = json.loads((project / name).read_bytes()).values()
    assert servers == {"ace": TYPED}
    assert here("mcp", "uninstall", client, "--scope", "project", folder=project, environ=home).code == 0
    assert files_below(tmp_path) == {"shop": None}


def test_what_the_user_edits_in_the_meantime_stays(here: Run, tmp_path: Path) -> None:
    path = laid_out(tmp_path, "vscode")
    here("mcp", "install", "vscode")
    edited = path.read_text(encoding="utf-8").replace('"tracker-mcp"', '"tracker-mcp@2"').replace("first", "next")
    path.write_text(edited.replace('"command"', '"cwd": "/tmp", "command"'), encoding="utf-8")  # in our entry, too
    assert here("mcp", "uninstall", "vscode").code == 0
    wanted = VSCODE.replace('"tracker-mcp"', '"tracker-mcp@2"').replace("first", "next")
    assert path.read_text(encoding="utf-8") == wanted.replace('"command"', '"cwd": "/tmp", "command"')


def test_clients_are_installed_and_removed_independently(here: Run, tmp_path: Path) -> None:
    for client in FILES:
        assert here("mcp", "install", client).code == 0
    for client in FILES:
        assert "ace" in (tmp_path / FILES[client][0]).read_text(encoding="utf-8")
        assert here("mcp", "uninstall", client).code == 0
    assert files_below(tmp_path) == {}


def test_another_file_can_be_named_and_may_be_a_link(here: Run, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles/mcp.json").write_text("{}", encoding="utf-8")
    (tmp_path / "mcp.json").symlink_to("dotfiles/mcp.json")
    before = files_below(tmp_path)
    assert here("mcp", "install", "vscode", "--config", "mcp.json").code == 0
    assert json.loads((tmp_path / "dotfiles/mcp.json").read_bytes()) == {"servers": {"ace": TYPED}}
    assert (tmp_path / "mcp.json").is_symlink()
    assert here("mcp", "uninstall", "vscode", "--config", "mcp.json").code == 0
    assert files_below(tmp_path) == before


def test_settings_of_the_server_are_passed_on(here: Run, tmp_path: Path) -> None:
    options = ("--skillbook", "team.db", "--default-model", "openai/gpt-4o-mini", "--safe-mode")
    assert here("mcp", "install", "cursor", *options).code == 0
    path = tmp_path / ".cursor/mcp.json"
    assert json.loads(path.read_bytes())["mcpServers"]["ace"]["env"] == {
        "ACE_MCP_SKILLBOOK": str(tmp_path / "team.db"),
        "ACE_MCP_DEFAULT_MODEL": "openai/gpt-4o-mini",
        "ACE_MCP_SAFE_MODE": "true",
    }
    done = here("mcp", "install", "cursor", "--scope", "user", "--skillbook", "acme://team/skills")
    assert "Changed" in done.out
    assert json.loads(path.read_bytes())["mcpServers"]["ace"]["env"] == {"ACE_MCP_SKILLBOOK": "acme://team/skills"}
    assert here("mcp", "uninstall", "cursor").code == 0
    assert files_below(tmp_path) == {}


def test_a_dry_run_shows_the_change_and_writes_nothing(here: Run, tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwx123456"
    laid_out(tmp_path, "cursor", CURSOR.replace("http://127.0.0.1:3000/sse", secret))
    before = files_below(tmp_path)
    done = here("mcp", "install", "cursor", "--dry-run")
    assert files_below(tmp_path) == before
    assert f'+\t\t\t"command": "{sys.executable}",' in done.out
    assert '"docs"' in done.out
    assert secret not in done.out
    here("mcp", "install", "cursor")
    installed = files_below(tmp_path)
    done = here("mcp", "uninstall", "cursor", "--dry-run")
    assert f'-\t\t\t"command": "{sys.executable}",' in done.out
    assert files_below(tmp_path) == installed


def test_json_says_what_was_changed(here: Run, tmp_path: Path) -> None:
    path = tmp_path / ".cursor/mcp.json"
    wanted: dict[str, Any] = {"schema": 1, "client": "cursor", "path": str(path), "changed": True, "dry_run": False}
    assert here("mcp", "install", "cursor", "--json", "--dry-run").data == {**wanted, "dry_run": True, "entry": TYPED}
    assert here("mcp", "install", "cursor", "--json").data == {**wanted, "entry": TYPED}
    assert here("mcp", "install", "cursor", "--json").data == {**wanted, "changed": False, "entry": TYPED}
    assert here("mcp", "uninstall", "cursor", "--json").data == wanted
    assert here("mcp", "uninstall", "cursor", "--json").data == {**wanted, "changed": False}


@pytest.mark.parametrize(
    ("client", "text", "what"),
    [
        ("claude-code", '{\n  // note\n  "mcpServers": {}\n}\n', "line 2, column 3"),
        ("claude-desktop", '{\n  "mcpServers": {},\n  2\n}\n', "line 3, column 3"),
        ("vscode", '{\n  "servers": {\n', "line 3, column 1"),
        ("vscode", "", "line 1, column 1"),
        ("cursor", "[]", "line 1, column 1: expected an object"),
        ("cursor", '{\n"mcpServers": []}', "line 2, column 15: 'mcpServers' is not an object"),
        ("cursor", '{"mcpServers": {"ace": {"command": "/bin/echo"}}}', "has a server 'ace' that"),
    ],
)
def test_a_file_that_cannot_be_changed_is_refused(client: str, text: str, what: str, here: Run, tmp_path: Path) -> None:
    path = laid_out(tmp_path, client, text)
    before = files_below(tmp_path)
    for command in ("install", "uninstall"):
        done = here("mcp", command, client)
        if command == "uninstall" and "is not an object" in what:
            assert done.code == 0
            continue
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"ace: {path}")
        assert what in done.err
        assert {**files_below(tmp_path), **before} == before | {
            name: None for name in files_below(tmp_path) if name.startswith(".local")
        }


def test_a_file_that_is_not_utf8_is_refused_with_its_line(here: Run, tmp_path: Path) -> None:
    path = laid_out(tmp_path, "cursor")
    path.write_bytes(b'{\n"a": "\xff"}')
    done = here("mcp", "install", "cursor")
    assert done.code == 2
    assert f"{path}, line 2: not UTF-8" in done.err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--skillbook", "postgresql://ann:s3cret-pass@db/skills"), "ACE_MCP_SKILLBOOK"),
        (("--default-model", "sk-proj-abcdefghijklmnopqrstuvwx123456"), "ACE_MCP_DEFAULT_MODEL"),
        (("--skillbok", "x.db"), "--skillbok"),
        (("--scope", "project"), "no configuration for projects"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], what: str, here: Run, tmp_path: Path) -> None:
    done = here("mcp", "install", "claude-desktop", *options)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert "s3cret" not in done.err and "abcdefgh" not in done.err
    assert files_below(tmp_path) == {}


def test_an_unknown_client_is_refused(tmp_path: Path) -> None:
    done = ace("mcp", "install", "emacs", folder=tmp_path)
    assert done.code == 2
    assert "claude-desktop" in done.err
    assert files_below(tmp_path) == {}


def test_nothing_is_left_to_uninstall(here: Run, tmp_path: Path) -> None:
    laid_out(tmp_path, "cursor")
    before = files_below(tmp_path)
    assert "Nothing to change" in here("mcp", "uninstall", "cursor").out
    assert files_below(tmp_path) == before


@pytest.mark.parametrize(
    ("platform", "client", "name"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("darwin", "claude-code", ".claude.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("linux", "claude-desktop", ".config/Claude/claude_desktop_config.json"),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("win32", "cursor", ".cursor/mcp.json"),
    ],
)
def test_each_platform_has_its_folders(platform: str, client: str, name: str) -> None:
    found = config_file(CLIENTS[client], "user", folder=Path("/x"), platform=platform, environ={})
    assert found == Path.home() / name


def test_variables_move_the_files(tmp_path: Path) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path / "data")}

    def found(client: str, platform: str, scope: Scope = "user") -> Path:
        return config_file(CLIENTS[client], scope, folder=tmp_path, platform=platform, environ=environ)

    assert found("claude-code", "linux") == tmp_path / ".claude.json"
    assert found("vscode", "linux") == tmp_path / "Code/User/mcp.json"
    assert found("vscode", "win32") == tmp_path / "data/Code/User/mcp.json"
    with pytest.raises(InstallationError, match="Claude Desktop has no configuration for projects"):
        found("claude-desktop", "linux", "project")


def test_the_entry_starts_the_server_from_any_folder_and_environment(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise SystemExit('the wrong module')", encoding="utf-8")
    entry = server_entry(CLIENTS["cursor"], {})
    args = entry["args"]
    assert isinstance(args, list)
    done = subprocess.run(
        [str(entry["command"]), *args],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "PATH": "/nowhere"},
        input=b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout.splitlines()[0])["id"] == 1, done.stderr


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A home folder for many examples."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("HOME", str(folder))
        changed.delenv("XDG_DATA_HOME", raising=False)
        yield folder


@given(
    st.sampled_from(sorted(CLIENTS)).flatmap(
        lambda name: st.tuples(st.just(name), COMMENTED_TEXTS if CLIENTS[name].has_comments else JSON_TEXTS)
    )
)
def test_any_configuration_is_restored_to_the_byte(world: Path, case: tuple[str, str]) -> None:
    name, text = case
    client = CLIENTS[name]
    path = laid_out(world, name, text)
    entry = server_entry(client, {"ACE_MCP_SKILLBOOK": '/home/jürgen/team "one".db'})
    before = files_below(world)
    assert install(client, path, entry).is_change
    assert not install(client, path, entry).is_change
    assert uninstall(client, path).is_change
    assert files_below(world) == before
