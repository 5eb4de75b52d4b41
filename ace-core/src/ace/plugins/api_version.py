"""The number of the plugin API, and which numbers are understood."""

from __future__ import annotations

from typing import Final

from ace.plugins.errors import PluginApiError

__all__ = ["ACCEPTED_API", "CURRENT_API", "check_api"]

CURRENT_API: Final = 1
"""The number that a hook module written today states as `ACE_API`."""
ACCEPTED_API: Final = (1,)
"""The numbers that are understood: the current one and the one before it, once there is one."""


def check_api(api: object, owner: str) -> None:
    """Check the number that a hook module states as `ACE_API`.

    Args:
        api: What it states; None if it states nothing.
        owner: The plugin and its distribution, for errors.

    Raises:
        PluginApiError: This ace-core does not understand it.

    Example:
        >>> check_api(CURRENT_API, "plugin 'acme' of ace-acme 1.0")
    """
    if type(api) is int and api in ACCEPTED_API:
        return
    if api is None:
        said, fix = "its hook module states no ACE_API", f"write ACE_API = {CURRENT_API} into it"
    elif type(api) is not int:
        said, fix = f"ACE_API must be a whole number, got {api!r}", f"write ACE_API = {CURRENT_API}"
    elif api > CURRENT_API:
        said, fix = f"it is written for plugin API {api}, newer than {CURRENT_API}", "update ace-core"
    else:
        said, fix = f"it is written for plugin API {api}, older than {min(ACCEPTED_API)}", "update the plugin"
    raise PluginApiError(f"{owner}: {said}; {fix}")
