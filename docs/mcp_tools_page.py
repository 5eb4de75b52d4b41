"""Writes `reference/mcp-tools.md` from the schemas of `ace mcp`: `python -m docs.mcp_tools_page`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import anyio

from ace_mcp import MCPServerConfig, create_server
from ace_mcp.errors import ErrorCode

PAGE = Path(__file__).parent / "reference" / "mcp-tools.md"

HEAD = """\
# MCP tools

This page is generated from the schemas by `python -m docs.mcp_tools_page`. `ace mcp tools --json` prints the schemas.

All tools refuse unknown arguments and do not convert types. Arguments with `*` are required. Limits on the number of
samples and the length of texts are those of the default settings.
"""

RESOURCES = """\
## Resources

| URI | contents |
|---|---|
"""

ERRORS = """\
## Errors

An error is a tool error with two texts: a sentence that begins with the code and says what to do, and the JSON object
`{"code": ..., "message": ..., "details": {...}}`. Resources and prompts return it as the `data` of a protocol error.
Values of arguments are never repeated, and keys are redacted.

| code | meaning |
|---|---|
"""


def page() -> str:
    """The page, as the schemas have it."""
    server = create_server(MCPServerConfig(skillbook="skills.db"))
    parts = [HEAD]
    for tool in anyio.run(server.list_tools):
        parts.append(f"## {tool.name}\n\n{tool.description}\n")
        parts.append(f"Arguments:\n\n{table(tool.input_schema)}")
        parts.append(f"Result:\n\n{table(tool.output_schema or {}, marked=False)}")
    templates = anyio.run(server.list_resource_templates)
    parts.append(
        RESOURCES + "".join(f"| `{template.uri_template}` | {template.description} |\n" for template in templates)
    )
    for prompt in anyio.run(server.list_prompts):
        arguments = "".join(
            f"| `{argument.name}`{'*' if argument.required else ''} | {argument.description} |\n"
            for argument in prompt.arguments or []
        )
        parts.append(
            f"## Prompt {prompt.name}\n\n{prompt.description}\n\n| argument | meaning |\n|---|---|\n{arguments}"
        )
    parts.append(ERRORS + "".join(f"| `{code}` | {meaning} |\n" for code, meaning in codes()))
    return "\n".join(parts)


def table(schema: dict[str, Any], *, marked: bool = True) -> str:
    """The properties of an object as a table; objects in it are described in the cells."""
    rows = ["| name | type | meaning |", "|---|---|---|"]
    required = schema.get("required", []) if marked else []
    for name, part in schema.get("properties", {}).items():
        star = "*" if name in required else ""
        rows.append(f"| `{name}`{star} | {kind(part, schema)} | {part.get('description', '')} |")
    return "\n".join([*rows, ""])


def kind(part: dict[str, Any], schema: dict[str, Any]) -> str:
    """The type of a property in a few words, with its limits."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        fields = schema["$defs"][name].get("properties", {})
        return f"object of {', '.join(f'`{field}`' for field in fields)}" if fields else "any JSON"
    if "anyOf" in part:
        return " or ".join(kind(option, schema) for option in part["anyOf"] if option.get("type") != "null")
    name = str(part.get("type", "any JSON"))
    if name == "array":
        name = f"array of {kind(part['items'], schema)}"
    limits = [
        (part.get("minimum", part.get("minLength", part.get("minItems"))), "at least"),
        (part.get("maximum", part.get("maxLength", part.get("maxItems"))), "at most"),
    ]
    shown = [f"{word} {value}" for value, word in limits if value is not None]
    default = [f"default `{part['default']}`"] if part.get("default") not in (None, "") else []
    return ", ".join([name, *shown, *default])


def codes() -> list[tuple[str, str]]:
    """The error codes with their meanings, which stand below them in the source."""
    lines = inspect.getsource(ErrorCode).splitlines()
    texts = [line.strip().strip('"') for line in lines if line.startswith('    """')][1:]
    return [(code.value, text) for code, text in zip(ErrorCode, texts, strict=True)]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
