"""ACE: AI agents learn from their own runs.

Importing ``ace`` loads nothing else; the parts are imported where they are used.

Example:
    >>> import ace
    >>> ace.__version__.count(".")
    2
"""

__version__: str
"""The version of the installed distribution ``ace-core``."""


def __getattr__(name: str) -> str:
    """Look up what is not loaded yet.

    Args:
        name: The attribute asked for.

    Returns:
        The version, the one attribute there is for now.

    Raises:
        AttributeError: ``ace`` has no such attribute.
    """
    if name == "__version__":
        # Imported here: importlib.metadata alone would more than double what `import ace` loads.
        from importlib.metadata import version

        return version("ace-core")
    raise AttributeError(f"module 'ace' has no attribute {name!r}")
