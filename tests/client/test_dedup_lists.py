"""Dedup around a listener of lists: what it is given, and what of a list is consumed."""

import asyncio

import pytest

from client.received import received
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Retry
from cometmq.client.dedup.attempt import KeyVerdict
from cometmq.client.dedup.dedup import Dedup
from cometmq.client.dedup.stores import MemoryStore
from cometmq.errors import BadMessage, InProgress
from cometmq.testing.clock import ManualClock


def keyed(*keys):
    return [received(at, properties={"KEYS": key}) for at, key in enumerate(keys)]


class Scene:
    """A listener of lists that says what it is told to, and what it was given."""

    def __init__(self, says=None):
        self.dedup = Dedup(MemoryStore(ManualClock()))
        self.says = says
        self.given = []

    def listener(self, messages):
        self.given.append([message.keys[0] for message in messages])
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    async def awaited(self, messages):
        return self.listener(messages)

    def verdicts(self, *keys):
        return [self.dedup.begin(message).verdict for message in keyed(*keys)]


@pytest.fixture(params=["guard", "guard_async"])
def call(request):
    """A guarded call, of either kind."""

    def called(scene, *keys):
        if request.param == "guard":
            return scene.dedup.guard(scene.listener)(keyed(*keys))
        return asyncio.run(scene.dedup.guard_async(scene.awaited)(keyed(*keys)))

    return called


def test_all_run_once(call):
    scene = Scene()
    assert call(scene, "a", "b") is None
    assert call(scene, "a", "b", "c") is None
    assert call(scene, "a", "b", "c") is None
    assert scene.given == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("says", "told", "free"),
    [
        (None, None, []),
        (Ack(), Ack(), []),
        (Commit(), Commit(), []),
        (Ack(2), Ack(), []),
        (Ack(9), Ack(), []),
        (Ack(1), Ack(3), ["new-2"]),
        (Ack(0), Ack(1), ["new-1", "new-2"]),
        (Retry(3), Retry(3), ["new-1", "new-2"]),
    ],
)
def test_what_it_says_of_those_it_was_given_is_told_of_all(call, says, told, free):
    scene = Scene(says)
    scene.dedup.begin(*keyed("old-1")).done()
    scene.dedup.begin(*keyed("old-2")).done()
    assert call(scene, "old-1", "new-1", "old-2", "new-2") == told
    assert scene.given == [["new-1", "new-2"]]
    expected = [KeyVerdict.RUN if key in free else KeyVerdict.SKIP for key in ("new-1", "new-2")]
    assert scene.verdicts("new-1", "new-2") == expected


@pytest.mark.parametrize("says", [None, Ack(), Commit()])
def test_from_the_first_that_is_in_progress_elsewhere_on_they_come_again(call, says):
    scene = Scene(says)
    scene.dedup.begin(*keyed("theirs"))
    assert call(scene, "a", "theirs", "b") == Ack(1)
    assert scene.given == [["a"]]
    assert scene.verdicts("a", "b") == [KeyVerdict.SKIP, KeyVerdict.RUN]
    assert call(scene, "a", "theirs") == Ack(1)
    with pytest.raises(InProgress, match="theirs is in progress"):
        call(scene, "theirs", "a")
    assert scene.given == [["a"]]


def test_one_without_a_key_costs_itself_and_those_behind_it(call):
    scene = Scene()
    assert call(scene, "a", "two words", "b") == Ack(1)
    with pytest.raises(BadMessage, match="give Dedup a `key`"):
        call(scene, "two words", "b")
    assert scene.given == [["a"]]


def test_of_two_with_one_key_the_first_runs(call):
    scene = Scene()
    assert call(scene, "a", "a", "b") is None
    assert scene.given == [["a", "b"]]


def test_after_a_failure_all_keys_are_free(call):
    scene = Scene(ConnectionError("no database"))
    with pytest.raises(ConnectionError):
        call(scene, "a", "b")
    assert scene.verdicts("a", "b") == [KeyVerdict.RUN, KeyVerdict.RUN]


def test_no_dead_letters_of_what_the_listener_was_not_given(call):
    scene = Scene(Retry(-1))
    scene.verdicts("b")  # in progress elsewhere
    assert call(scene, "a", "b", "c") == Retry(0)
    assert call(scene, "d", "e") == Retry(-1)
    scene.says = Ack(1, -1)
    assert call(scene, "f", "g") == Ack(1, -1)
    assert call(scene, "h", "i", "b") == Ack(1, 0)
    assert scene.given == [["a"], ["d", "e"], ["f", "g"], ["h", "i"]]
