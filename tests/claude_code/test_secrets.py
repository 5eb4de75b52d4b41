"""Secrets in a real session, wherever they are said, printed or read, reach neither the learner's model nor a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.claude_code.conftest import Ace, ServerFor
from tests.claude_code.test_sessions import session, wait_for_the_learner
from tests.claude_code.test_spend import lessons
from tests.support.scripted_anthropic_server import Reply, Request, Script, Text, Thinking, ToolUse
from tests.support.scripted_server import ScriptedServer

IN_PROMPT = {
    "token in the prompt": "ghp_9rT2mQx7LbV4cZ1nHs8Kd3Wf6Yp0Aj5Ue2Go",
    "password in the prompt": "Xk7-sparrow-Lantern42",
}
IN_CALLS = {
    "variable of a command": "q8ZrT4wLmN2xPv",
    "bearer of a command": "mF3kd82hs9QwLp0aZx71",
    "user of a command": "tiger-Oak-5521",
    "option of a command": "w0mbat-Field-93",
    "written file": "Zy4-basalt-Meadow-77",
}
IN_ENVIRONMENT = {
    "DEPLOY_TOKEN": "7hGk2pLw9Qz4Rt8Xc1Vb",
    "AWS_SECRET_ACCESS_KEY": "wJb7rXUtnFEMIaK7MDENGzbPxRfiCYzzEXAMPL2K",
    "SECRET_KEY_BASE": "5f2b8c1d9e7a4036b1c2d3e4f5a6978812ab34cd56ef7890",
    "SMTP_PASSWORD": "plainwordswithoutdigits",
    "DATABASE_URL": "postgres://app:uR9-cobalt-Harbor@db.internal:5432/app",
    "STRIPE_KEY": "b7Tq1Zc8Lm3Xv0Rk5Wd2",
}
PEM_LINES = [
    "MIIEowIBAAKCAQEAx7Vw3pJkQmZ8sT1bYcR5fLdN0aHgUeKo2iXzMvWqBtSnPyCl",
    "kD4rGhE9uFjA6oIwTzLxVbNmQsPyRcKdHgUeJfLoWnXtZaBvCyMpDqErFsGtHuIw",
    "o1JkLmNpQrStUvWxYz2A3b4C5d6E7f8G9h0IjKlMnOpQrStUvWxYz1a2B3c4D5e6",
]
FILES = {
    "key.pem": "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(PEM_LINES) + "\n-----END RSA PRIVATE KEY-----\n",
    "settings.json": '{"name": "shop", "client_secret": "nB5xQ8rT2kLw7Zp", "retries": 3}\n',
    "config.yaml": "database:\n  host: db\n  password: vortex-Plum-88\n",
    "netrc": "machine example.org login ann password m0ss-Garnet-16\n",
    "docker.json": '{"auths": {"registry.example.org": {"auth": "YW5uOm1vc3MtR2FybmV0LTE2LWRvY2tlcg=="}}}\n',
}
IN_FILES = {
    **{f"line {number} of key.pem": line for number, line in enumerate(PEM_LINES)},
    "settings.json": "nB5xQ8rT2kLw7Zp",
    "config.yaml": "vortex-Plum-88",
    "netrc": "m0ss-Garnet-16",
    "docker.json": "YW5uOm1vc3MtR2FybmV0LTE2LWRvY2tlcg==",
}
PASSWORD_IN_ADDRESS = "uR9-cobalt-Harbor"
SECRETS = {
    **IN_PROMPT,
    **IN_CALLS,
    **{name: value for name, value in IN_ENVIRONMENT.items() if name != "DATABASE_URL"},
    **IN_FILES,
    "DATABASE_URL": PASSWORD_IN_ADDRESS,
}
PROMPT = (
    f"Deploy the shop with the token {IN_PROMPT['token in the prompt']}; "
    f"the password is {IN_PROMPT['password in the prompt']}. Remember the flag --blue-green."
)
COMMAND = (
    f"PGPASSWORD={IN_CALLS['variable of a command']} true; "
    f"true curl -H 'Authorization: Bearer {IN_CALLS['bearer of a command']}' "
    f"-u deploy:{IN_CALLS['user of a command']} --password {IN_CALLS['option of a command']}; "
    "cat deploy.env settings.json; cat deploy.env >&2"
)
SUBTASK = "SUBTASK: read the files"


def world(project: Path) -> None:
    lines = [f"{name}={value}" for name, value in IN_ENVIRONMENT.items()]
    (project / "deploy.env").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, text in FILES.items():
        (project / name).write_text(text, encoding="utf-8")


def script_for(project: Path) -> Script:
    def script(request: Request) -> Reply:
        if not request.tools:
            return [Text("A title")]
        done = len(request.tool_results)
        if SUBTASK in request.prompt:
            names = list(FILES)
            if done < len(names):
                return [ToolUse("Read", {"file_path": str(project / names[done])})]
            return [Text(f"I have read them. The netrc has {IN_FILES['netrc']}.")]
        if done == 0:
            return [
                Thinking(f"The token {IN_PROMPT['token in the prompt']} is needed."),
                ToolUse("Bash", {"command": COMMAND, "description": "Deploy"}),
            ]
        if done == 1:
            content = f"password: {IN_CALLS['written file']}\nmode: blue-green\n"
            return [ToolUse("Write", {"file_path": str(project / "new.yaml"), "content": content})]
        if done == 2:
            task = {"description": "Read", "prompt": SUBTASK, "subagent_type": "general-purpose"}
            return [ToolUse("Agent", task)]
        # What was labelled before is repeated without a label.
        repeated = [*IN_PROMPT.values(), *IN_ENVIRONMENT.values(), *IN_CALLS.values(), *IN_FILES.values()]
        return [Text("Deployed --blue-green. I have used " + ", then ".join(repeated) + ".")]

    return script


def test_no_secret_of_a_session_reaches_the_learner_or_a_file(
    claude: str, home: Path, project: Path, serving: ServerFor, ace: Ace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    world(project)
    serving(script_for(project))
    with ScriptedServer(lessons) as learner:
        ace("install", "--model", "openai/x", "--api-base", learner.api_base)
        session(claude, project, "--allowedTools", "Bash,Read,Write,Agent", prompt=PROMPT)
        status = wait_for_the_learner(ace, 1)
        sent = "\n".join(json.dumps(request.body, ensure_ascii=False) for request in learner.requests)
    [transcript] = (home / ".claude" / "projects").glob("*/*.jsonl")
    files = [transcript, *transcript.with_suffix("").rglob("*.jsonl")]
    said = "".join(path.read_text(encoding="utf-8") for path in files)
    # Everything was in the session, the work is learned from, and the trace was not merely cut.
    assert [name for name, secret in SECRETS.items() if secret not in said] == []
    assert "--blue-green" in sent and "I have read them." in sent and '"retries' in sent.replace("\\", "")
    assert [name for name, secret in SECRETS.items() if secret in sent] == []
    kept = b"".join(path.read_bytes() for path in (home / ".claude" / "ace").rglob("*") if path.is_file())
    assert b"Deploy the shop" in kept
    assert [name for name, secret in SECRETS.items() if secret.encode() in kept] == []
    assert [name for name, secret in SECRETS.items() if secret in json.dumps(status)] == []
