"""Every exception of ours, by who is at fault: the peer, the world, or whoever started us.

Raised deep and translated once: `remoting/dispatch.py` turns them into response codes on the
server side, and the command line into one line of text.
"""


class PeerError(Exception):
    """The other side sent something wrong, or declined."""


class WorldError(Exception):
    """Disk, network or time did not do what we asked."""


class UserError(Exception):
    """The person who started us asked for something that cannot be."""


class Malformed(PeerError):
    """Bytes that are no frame, header, record or body of the protocol."""


class BadHeader(PeerError):
    """A readable command whose extension fields do not fit its request code."""


class BadName(PeerError):
    """A topic or group name that breaks the naming rules."""


class TooLarge(PeerError):
    """Something exceeds the limit it was told."""


class Refused(PeerError):
    """Understood and declined: carries the response code, and the reason as its text."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class TooManyRequests(PeerError):
    """More requests in flight than the limit allows, and none finished in time."""


class Unreachable(WorldError):
    """No connection to an address, or it broke before the answer came."""


class TimedOut(WorldError):
    """No answer within the time given."""


class BadState(WorldError):
    """A file of ours cannot be read back."""


class NotInstalled(WorldError):
    """An optional package that is needed now is not there."""


class StoreFailed(WorldError):
    """The disk failed the store: it takes no more messages until it is opened again."""


class DiskFull(WorldError):
    """No room for another file; the store takes messages again once there is."""


class BadSetting(UserError):
    """A setting that is unknown, of the wrong type or out of range."""


class CannotListen(UserError):
    """The address to listen on is taken, or not ours."""
