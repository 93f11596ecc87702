"""The exception tree: one base, whose fault it is, what a caller can do."""

import inspect
import pickle

import pytest

import cometmq
from cometmq import errors
from cometmq.errors import Error, PeerError, Refused, StoredState, TimedOut, Unreachable, UserError
from cometmq.protocol.codes import ResponseCode

CLASSES = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, Exception)
]


def test_the_base_is_public():
    assert cometmq.Error is Error
    assert cometmq.StoredState is StoredState


@pytest.mark.parametrize("kind", CLASSES)
def test_every_exception_has_the_base_and_one_kind_of_fault(kind):
    assert issubclass(kind, Error)
    faults = {PeerError, errors.WorldError, UserError}
    if kind is not Error:
        assert len(faults & set(kind.__mro__)) == 1
    assert kind.__doc__


def test_standard_exceptions_are_bases():
    assert issubclass(TimedOut, TimeoutError)
    assert issubclass(Unreachable, ConnectionError)
    assert str(Unreachable("no connection to a:1")) == "no connection to a:1"
    assert Unreachable("x").errno is None


@pytest.mark.parametrize("kind", [TimedOut, Unreachable])
def test_stored_is_unknown_unless_nothing_was_written(kind):
    assert kind("x").stored is StoredState.UNKNOWN
    made = kind("x", stored=StoredState.NO)
    assert made.stored is StoredState.NO
    copy = pickle.loads(pickle.dumps(made))
    assert (type(copy), str(copy), copy.stored) == (kind, "x", StoredState.NO)


RETRYABLE_CODES = {
    ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SERVICE_NOT_AVAILABLE,
}  # fmt: skip


@pytest.mark.parametrize("code", ResponseCode)
def test_a_refusal_is_retryable_by_its_code(code):
    assert Refused(code, "no").retryable == (code in RETRYABLE_CODES)
    assert Refused(code, "no").stored is StoredState.NO


def test_retryable_exceptions():
    retryable = {each.__name__ for each in CLASSES if each.retryable}
    assert retryable == {
        "TooManyRequests", "Unreachable", "TimedOut", "DiskFull", "BeingDeleted", "NoRoute",
        "InProgress",
    }  # fmt: skip
