"""The page on the MCP tools is what their schemas say."""

import anyio

from ace_mcp import create_server
from docs.mcp_tools_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m docs.mcp_tools_page"


def test_every_tool_and_every_argument_is_on_it() -> None:
    text = page()
    for tool in anyio.run(create_server().list_tools):
        assert f"\n## {tool.name}\n" in text
        for name in tool.input_schema["properties"]:
            assert f"| `{name}`" in text
