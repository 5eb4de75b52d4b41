"""The programs of the page "I use X": each asks a model behind `OPENAI_BASE_URL` once, and prints its answer."""

from __future__ import annotations

__all__ = ["FRAMEWORKS", "NODE", "WITH_TOOL"]

_ASK = "How is the weather in Paris?"

FRAMEWORKS = {
    "langchain_openai": f"""
from langchain_openai import ChatOpenAI
print(ChatOpenAI(model="m").invoke({_ASK!r}).content)
""",
    "pydantic_ai": f"""
from pydantic_ai import Agent
print(Agent("openai-chat:m").run_sync({_ASK!r}).output)
""",
    "agents": f"""
from agents import Agent, Runner, set_tracing_disabled
set_tracing_disabled(True)
print(Runner.run_sync(Agent(name="a", model="m"), {_ASK!r}).final_output)
""",
    "crewai": f"""
from crewai import LLM
print(LLM(model="openai/gpt-4o").call({_ASK!r}))
""",
    "smolagents": f"""
import os
from smolagents import OpenAIServerModel
model = OpenAIServerModel("m", api_base=os.environ["OPENAI_BASE_URL"])
print(model.generate([{{"role": "user", "content": [{{"type": "text", "text": {_ASK!r}}}]}}]).content)
""",
    "llama_index": f"""
import os
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAI
llm = OpenAI(model="gpt-4o", api_base=os.environ["OPENAI_BASE_URL"])
print(llm.chat([ChatMessage(role="user", content={_ASK!r})]).message.content)
""",
    "google.adk": f"""
import asyncio, os
from google.adk.agents import Agent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

async def main():
    model = LiteLlm(model="openai/m", api_base=os.environ["OPENAI_BASE_URL"])
    runner = InMemoryRunner(agent=Agent(name="a", model=model), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    content = types.Content(role="user", parts=[types.Part(text={_ASK!r})])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=content):
        print(event.content.parts[0].text)

asyncio.run(main())
""",
    "autogen_agentchat": f"""
import asyncio, os
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
client = OpenAIChatCompletionClient(model="gpt-4o", base_url=os.environ["OPENAI_BASE_URL"])
found = asyncio.run(AssistantAgent("a", client).run(task={_ASK!r}))
print(found.messages[-1].content)
""",
}
"""The programs in Python, by the package that they import."""

WITH_TOOL = {
    "autogen_agentchat": f"""
import asyncio, os
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

async def weather(city: str) -> str:
    \"\"\"Return the weather.\"\"\"
    return "rain"

async def main():
    client = OpenAIChatCompletionClient(model="gpt-4o", base_url=os.environ["OPENAI_BASE_URL"])
    agent = AssistantAgent("a", client, tools=[weather], reflect_on_tool_use=True, model_client_stream=True)
    async for message in agent.run_stream(task={_ASK!r}):
        print(type(message).__name__, getattr(message, "content", ""))

asyncio.run(main())
""",
    "ag2": f"""
import asyncio
from ag2 import Agent
from ag2.config import OpenAIConfig

def weather(city: str) -> str:
    \"\"\"Return the weather.\"\"\"
    print("weather in", city)
    return "rain"

async def main():
    agent = Agent("a", config=OpenAIConfig(model="gpt-4o", streaming=True), tools=[weather])
    print((await agent.ask({_ASK!r})).body)

asyncio.run(main())
""",
}
"""Agents that stream their answers and call a tool, by the package that they import."""

NODE = f"""
import {{ createOpenAI }} from "@ai-sdk/openai";
import {{ generateText }} from "ai";
const openai = createOpenAI({{ baseURL: process.env.OPENAI_BASE_URL }});
console.log((await generateText({{ model: openai.chat("m"), prompt: {_ASK!r} }})).text);
"""
"""The program for the AI SDK of Vercel."""
