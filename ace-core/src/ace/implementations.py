"""`ace.roles` under the name that programs import the roles from.

Example:
    >>> from ace.implementations import Agent, Reflector, SkillManager
    >>> Agent.__module__
    'ace.roles.agent'
"""

from ace import roles

__all__ = [*roles.__all__]


def __getattr__(name: str) -> object:
    return getattr(roles, name)


def __dir__() -> list[str]:
    return dir(roles)
