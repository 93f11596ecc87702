"""Every exception of ours, by who is at fault: the peer, the world, or whoever started us.

Raised deep and translated once: `remoting/dispatch.py` turns them into response codes on the
server side, and the command line into one line of text.
"""

from collections.abc import Sequence


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


class BadExpression(PeerError):
    """A filter that is no expression of its language: says what is wrong, and where."""


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


class InUse(BadState):
    """Files that another process holds."""


class NotInstalled(WorldError):
    """An optional package that is needed now is not there."""


class StoreFailed(WorldError):
    """The disk failed the store: it takes no more messages until it is opened again."""


class DiskFull(WorldError):
    """No room for another file; the store takes messages again once there is."""


class BeingDeleted(WorldError):
    """A topic that takes messages again, as a new one, once all of the old one is gone."""


class TooFewDescriptors(UserError):
    """The process may open too few files to serve: says which limit to raise."""


class BadSetting(UserError):
    """A setting that is unknown, of the wrong type or out of range."""


class BadPlace(UserError):
    """What was chosen is taken, or of no use to us: `setting` chooses another."""

    def __init__(self, what: str, setting: str) -> None:
        super().__init__(f"{what}; choose another with {setting}")
        self.what = what
        self.setting = setting


class CannotListen(BadPlace):
    """The address to listen on is taken, or not ours."""


class CannotKeep(BadPlace):
    """The folder for our files is another process's, or cannot be written to."""


# Of a client alone


class BadMessage(UserError):
    """A message that cannot be sent as it is: says what to change."""


class NoRoute(WorldError):
    """No broker is known that serves the topic."""


class PartlySent(WorldError):
    """The first parts of a batch are stored, with these results; why the rest is not is its cause.

    Its `unsent` are the messages of the parts that came later, the failed one's first.
    """

    def __init__(self, text: str, results: Sequence[object], unsent: Sequence[object]) -> None:
        super().__init__(text)
        self.results = results
        self.unsent = unsent


class InProgress(WorldError):
    """Another consumer works on the same business key: try again later."""


class Closed(UserError):
    """A client that is closed, or was made in the process that this one was forked from."""
