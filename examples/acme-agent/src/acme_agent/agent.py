"""The agent, which calls its model until it answers."""

from collections.abc import Awaitable, Callable, Mapping

from acme_agent.log import RunLog

Model = Callable[[str], Awaitable[str]]
"""Takes the conversation so far, and returns `CALL tool argument` or the answer."""


class AgentGaveUp(Exception):
    """The agent did not answer within the limit of turns."""


class AcmeAgent:
    """An agent with tools."""

    def __init__(
        self,
        model: Model,
        tools: Mapping[str, Callable[[str], str]] | None = None,
        *,
        manual: str = "You are a helpful agent.",
        turns: int = 5,
    ) -> None:
        self.model = model
        self.tools = dict(tools or {})
        self.manual = manual
        self.turns = turns

    async def work(self, assignment: str, log: RunLog, *, briefing: str = "") -> str:
        """Work on an assignment and return the answer. The briefing is added to the manual for this run."""
        said = [self.manual, briefing, f"Assignment: {assignment}"]
        for _ in range(self.turns):
            answer = await self.model("\n\n".join(filter(None, said)))
            word, _, rest = answer.partition(" ")
            if word != "CALL":
                log.answer = answer
                return answer
            said.append(self._called(rest, log))
        raise AgentGaveUp(f"no answer after {self.turns} turns")

    def _called(self, request: str, log: RunLog) -> str:
        name, _, argument = request.partition(" ")
        log.add("called", name, argument)
        try:
            returned = self.tools[name](argument)
        except Exception as error:
            log.add("failed", name, f"{type(error).__name__}: {error}")
            return f"{name} failed: {error}"
        log.add("returned", name, returned)
        return f"{name} returned: {returned}"
