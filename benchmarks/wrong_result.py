"""What ends a benchmark with exit status 1."""


class WrongResult(Exception):
    """The engine returned something else than it should have; how long it took does not matter then."""


def require(condition: bool, text: str) -> None:
    """Continue only if what was measured has done its work.

    Raises:
        WrongResult: If not.
    """
    if not condition:
        raise WrongResult(text)
