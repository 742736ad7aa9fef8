"""What can go wrong. Everything derives from :class:`MnemeError`."""

from __future__ import annotations


class MnemeError(RuntimeError):
    """Base of all errors of this package. The text is one sentence that names the thing and the remedy."""


class RecordingError(MnemeError):
    """A recording cannot be found or read."""


class EngineNotFound(MnemeError):
    """``mneme-replay`` is nowhere to be found."""


class EngineError(MnemeError):
    """The replay engine ended while there was work, or never began.

    ``status`` is its exit status (docs/reference/exit-status.md), negative for a signal, ``None`` where it is not
    known.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RequestError(MnemeError):
    """The engine could not make sense of a request, for instance of an unknown field of a configuration."""


class Cancelled(MnemeError):
    """The configuration was cancelled before it ran."""


class SpaceError(MnemeError, ValueError):
    """A search space, or a parameter of one, cannot be used as asked."""
