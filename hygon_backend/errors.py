"""Exceptions of the project.

Every message is one sentence that names the argument, its value and what is allowed, so that a
user who sees nothing but the last line of a traceback still knows what to change.
"""


class HygonBackendError(Exception):
    """Base class: catch this to catch everything the project raises on purpose."""


class InvalidArgumentError(HygonBackendError, ValueError):
    """An argument has a value that no version of the operator could accept."""


class UnsupportedError(HygonBackendError, NotImplementedError):
    """The request is meaningful, but this build, target or engine version cannot serve it."""


def reject(argument: str, value: object, allowed: str) -> InvalidArgumentError:
    """Builds the standard one-sentence complaint about one argument."""
    return InvalidArgumentError(f"{argument} is {value}, but must be {allowed}")
