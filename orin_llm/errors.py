"""The errors a user can meet. Each carries the exit code that the command line returns for it."""

from __future__ import annotations


class OrinError(Exception):
    """Base of every error raised on purpose: the work failed, and the message says what to do."""

    exit_code = 1


class UsageError(OrinError):
    """A flag, parameter or argument that cannot be used as given."""

    exit_code = 2


class ModelFileError(OrinError):
    """A model file that is damaged, of another kind, or not supported.

    Attributes:
        path: the file, as given.
        field: what in the file is wrong (a header field, metadata key or tensor name), or "".
        offset: byte offset in the file where it was found, or None where there is no single place.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, path: str = "", field: str = "", offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.field = field
        self.offset = offset


class DeviceUnavailable(OrinError):
    """A device or a needed tool that is not there."""

    exit_code = 4


class PromptTooLong(OrinError):
    """A prompt that can never fit the context. The message names both sizes in tokens."""


class StateFileError(OrinError):
    """A state file that is damaged, cannot be read or written, or does not fit the engine."""

    exit_code = 3


class ResultFileError(OrinError):
    """A file of a benchmark's results that is damaged or something else."""

    exit_code = 3
