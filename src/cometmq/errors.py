"""All exceptions of the package.

    Error                       every exception below; also `cometmq.Error`
      PeerError                 the other side sent something wrong, or refused the request
      WorldError                disk, network or time failed
      UserError                 the caller or the operator asked for something impossible

Errors are translated only at the outermost layer: servers turn them into response codes in
`remoting/dispatch.py`, and the command line prints one line of text.
"""

from collections.abc import Sequence
from enum import Enum


class StoredState(Enum):
    """Whether a broker stored the message of a failed send."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"  # the request left this process, and no answer arrived


class Error(Exception):
    """Base of all exceptions of cometmq.

    Attributes:
        retryable: True if the same call may succeed later although the caller changes nothing.
        stored: For an error raised by a send: whether a broker stored the message. The value is
            rarely `StoredState.YES`, because a send that stored its message returns a result.
    """

    retryable: bool = False
    stored: StoredState = StoredState.NO


class PeerError(Error):
    """The other side sent something wrong, or refused the request."""


class WorldError(Error):
    """Disk, network or time failed."""


class UserError(Error):
    """The caller or the operator asked for something impossible."""


class Malformed(PeerError):
    """The bytes are not a valid frame, header, record or body of the protocol."""


class BadHeader(PeerError):
    """The extension fields of a command do not fit its request code."""


class BadName(PeerError):
    """A topic or group name breaks the naming rules."""


class BadExpression(PeerError):
    """A filter expression is invalid; the text says what is wrong, and where."""


class TooLarge(PeerError):
    """A value exceeds its size limit."""


class Refused(PeerError):
    """The server understood the request and refused it.

    Attributes:
        code: The response code (`ResponseCode`). The server's reason is the error's text.
    """

    # SYSTEM_ERROR, SYSTEM_BUSY, FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT,
    # SERVICE_NOT_AVAILABLE: temporary conditions. This module cannot import `protocol`, so a test
    # compares the numbers with `ResponseCode`.
    _PASSING = frozenset({1, 2, 10, 11, 12, 14})

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.retryable = code in self._PASSING


class TooManyRequests(PeerError):
    """The limit of requests in flight was reached, and no request finished in time."""

    retryable = True


class Unreachable(WorldError, ConnectionError):
    """A connection could not be opened, or it broke before the answer arrived.

    `stored` is `StoredState.NO` if the request was not written to the connection.
    """

    retryable = True

    def __init__(self, text: str, *, stored: StoredState = StoredState.UNKNOWN) -> None:
        super().__init__(text)
        self.stored = stored


class TimedOut(WorldError, TimeoutError):
    """No answer arrived within the timeout.

    `stored` is `StoredState.NO` if the request was not written to the connection.
    """

    retryable = True

    def __init__(self, text: str, *, stored: StoredState = StoredState.UNKNOWN) -> None:
        super().__init__(text)
        self.stored = stored


class BadState(WorldError):
    """A file that cometmq stored cannot be read."""


class InUse(BadState):
    """Another process holds the files."""


class NotInstalled(WorldError):
    """An optional package is needed and not installed."""


class StoreFailed(WorldError):
    """The disk failed. The store accepts no messages until it is reopened."""


class DiskFull(WorldError):
    """The disk has no space for another file. The store accepts messages again when it has."""

    retryable = True


class BeingDeleted(WorldError):
    """The topic is being deleted. After the deletion it accepts messages again, as a new topic."""

    retryable = True


class TooFewDescriptors(UserError):
    """The process may open too few files to serve; the text says which limit to raise."""


class BadSetting(UserError):
    """A setting or an argument is unknown, of the wrong type or out of range."""


class BadPlace(UserError):
    """A chosen address or folder cannot be used.

    Attributes:
        what: The problem.
        setting: The setting that chooses another address or folder.
    """

    def __init__(self, what: str, setting: str) -> None:
        super().__init__(f"{what}; choose another with {setting}")
        self.what = what
        self.setting = setting


class CannotListen(BadPlace):
    """The address to listen on is in use, or does not belong to this machine."""


class CannotKeep(BadPlace):
    """The data folder is in use by another process, or is not writable."""


# Raised by clients only


class BadMessage(UserError):
    """A message cannot be sent as it is; the text says what to change."""


class NoRoute(WorldError):
    """No known broker serves the topic."""

    retryable = True


class PartlySent(WorldError):
    """A batch was sent in several parts, and a part failed after others had been stored.

    `__cause__` is the failure. `stored` and `retryable` describe the messages in `unsent`.

    Attributes:
        results: The send results of the parts that are stored.
        unsent: The messages of the failed part and of the parts after it.
    """

    stored = StoredState.UNKNOWN

    def __init__(self, text: str, results: Sequence[object], unsent: Sequence[object]) -> None:
        super().__init__(text)
        self.results = results
        self.unsent = unsent


class InProgress(WorldError):
    """Another consumer is processing the same business key."""

    retryable = True


class Closed(UserError):
    """The client is closed, or was created in the parent process before a fork."""
