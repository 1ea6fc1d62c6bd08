"""What the cache core refuses beside arguments that are wrong (`InvalidArgumentError`).

Every refusal happens before anything was changed.
"""

from hygon_backend.errors import HygonBackendError


class UnknownIdError(HygonBackendError, LookupError):
    """A node or sequence that is not there, or is not there any more."""


class IllegalStateError(HygonBackendError, RuntimeError):
    """A call that is legal in another state only, such as giving back a lock that was not taken."""


class OutOfBlocksError(HygonBackendError, RuntimeError):
    """Too few blocks are free. Free sequences, or wait until some are freed, and try again."""
