"""`from cometmq import Producr` passed mypy and pyright, and `@consumer.on` accepted any function.

Pyright is used where it is installed: `COMETMQ_PYRIGHT` is its path, or it is beside the Python
that runs the tests, or on PATH.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cometmq
from cometmq import Message, PushConsumer, PushConsumerConfig, TransactionProducer, blocking, compat
from cometmq.errors import BadSetting

ROOT = Path(__file__).parents[2]
_BESIDE_PYTHON = shutil.which("pyright", path=str(Path(sys.executable).parent))
PYRIGHT = os.environ.get("COMETMQ_PYRIGHT") or _BESIDE_PYTHON or shutil.which("pyright")
NAMES = "\n".join(f"from cometmq import {name} as {name}" for name in cometmq.__all__)
GOOD = f"""
{NAMES}
from functools import partial
from cometmq.testing import EmbeddedCluster
from cometmq import blocking, PushConsumer, PushConsumerConfig, ReceivedMessage, Ack, Retry, Dedup
from cometmq import MemoryStore

consumer = PushConsumer("g")
waiting = blocking.PushConsumer("g")
cluster: EmbeddedCluster

@consumer.on("a")
@waiting.on("a")
def plain(message: ReceivedMessage) -> None: ...

@consumer.on("a")
async def awaited(message: ReceivedMessage) -> Ack | Retry | None: ...

@consumer.on("a", orderly=True)
def several(messages: list[ReceivedMessage]) -> Ack:
    return Ack(1)

@consumer.on("a")
async def awaited_several(messages: list[ReceivedMessage]) -> None: ...

@consumer.on("a")
def untyped(message): ...  # type: ignore[no-untyped-def]

@consumer.on("a")
def with_default(message: ReceivedMessage, more: int = 0) -> None: ...

class Taker:
    def take(self, message: ReceivedMessage) -> None: ...
    def __call__(self, message: ReceivedMessage) -> None: ...

consumer.listen(Taker().take)
consumer.listen(Taker())
consumer.listen(Dedup(MemoryStore()).guard(plain))
version: str = __version__
plain(ReceivedMessage.__new__(ReceivedMessage))
"""
# Each line is one mistake, alone in its program.
BAD = {
    "misspelled": "from cometmq import Producr",
    "misspelled-attribute": "import cometmq; cometmq.Producr",
    "misspelled-in-testing": "from cometmq.testing import EmbededCluster",
    "misspelled-in-blocking": "from cometmq.blocking import Producr",
    "misspelled-in-compat": "from cometmq.compat import DefaultMqProducer",
    "no-argument": "@consumer.on('a')\ndef take() -> None: ...",
    "two-arguments": "@consumer.on('a')\ndef take(one: ReceivedMessage, two: int) -> None: ...",
    "text": "@consumer.on('a')\ndef take(message: str) -> None: ...",
    "result": "@consumer.on('a')\ndef take(message: ReceivedMessage) -> str:\n    return ''",
    "awaited-result": "@consumer.on('a')\nasync def take(one: ReceivedMessage) -> int:\n  return 1",
    "blocking": "@waiting.on('a')\ndef take(message: int) -> None: ...",
    "listen": "def take() -> None: ...\nconsumer.listen(take)",
    "enum": "PushConsumerConfig(group='g', message_model='CLUSTERNG')",
    "enum-member": "PushConsumerConfig(group='g', message_model=MessageModel.CLUSTERNG)",
    "number": "PushConsumerConfig(group='g', consume_threads='20')",
    "no-group": "PushConsumerConfig()",
    "no-setting": "PushConsumerConfig(group='g', consume_thread=1)",
    "former-setting": "ProducerConfig(group='g', send_timeout_ms=3000)",
    "read-no-setting": "print(ProducerConfig(group='g').send_timeout_ms)",
    "duration-text": "ProducerConfig(group='g', send_timeout='3')",
    "timeout-text": "async def go() -> None:\n    await producer.send(order, timeout='3')",
    "poll-text": "async def go() -> None:\n    await puller.poll(timeout='3')",
    "missing-await": "async def go() -> None:\n    producer.send(order)",
    "result-without-await": "async def go() -> None:\n    print(producer.send(order).status)",
    "result-attribute": "async def go() -> None:\n    print((await producer.send(order)).msgid)",
    "blocking-result": "print(sender.send(order).msgid)",
    "exception": "from cometmq.errors import TimeOut",
    "exception-attribute": "try: ...\nexcept errors.TimeOut: ...",
    "error-attribute": "try: ...\nexcept Error as error: print(error.is_retryable)",
    "message-field": "Message('t', b'x', tag='paid')",
    "message-attribute": "print(order.boddy)",
    "received-field": "def take(one: ReceivedMessage) -> None:\n    print(one.boddy)",
    "callback": "def tell() -> None: ...\nproducer.on_connection(tell)",
    "advance": "EmbeddedCluster().advance('2h')",
}  # fmt: skip
HEAD = """
from cometmq import LitePullConsumer, Message, MessageModel, Producer, ProducerConfig, PushConsumer
from cometmq import Error, PushConsumerConfig, ReceivedMessage, blocking, errors
from cometmq.testing import EmbeddedCluster
consumer = PushConsumer("g")
waiting = blocking.PushConsumer("g")
producer = Producer("g")
sender = blocking.Producer("g")
puller = LitePullConsumer("g")
order = Message("orders", b"one")
"""
# A user's project with ten mistakes, one per kind: their lines must be all that is reported.
PROJECT = """\
from datetime import timedelta

from cometmq import Ack, ClientConfig, Message, Producer, ProducerConfig, PushConsumer
from cometmq import Error, PushConsumerConfig, ReceivedMessage, SendResult, errors
from cometmq import LitePulConsumer  # mistake: misspelled import

client = ClientConfig(name_servers="127.0.0.1:9876", api_timeout=timedelta(seconds=5))
settings = ProducerConfig(group="shop", send_timeot=3)  # mistake: unknown configuration field
billing = PushConsumerConfig(group="billing", message_model="BROADCAST")  # mistake: wrong enum
consumer = PushConsumer(billing, client=client)


@consumer.on("orders")  # mistake: wrong handler signature
def bill(message: ReceivedMessage, attempt: int) -> Ack: ...


@consumer.on("refunds")  # mistake: handler with a wrong return type
async def refund(message: ReceivedMessage) -> bool: ...


async def order(producer: Producer, body: bytes) -> SendResult | None:
    message = Message("orders", body, tags="paid", keys="17")
    await producer.send(message, timeout="3")  # mistake: timeout as text
    producer.send(message)  # mistake: missing await
    try:
        result = await producer.send(message, timeout=1.5)
        print(result.messageId)  # mistake: wrong result attribute
        return result
    except errors.TimeoutExpired:  # mistake: wrong exception name
        print(message.tag)  # mistake: wrong message field
    except Error as error:
        print(error.retryable, error.stored)
    return None
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    (folder / "good.py").write_text(GOOD)
    for name, text in BAD.items():
        (folder / f"bad_{name.replace('-', '_')}.py").write_text(f"{HEAD}{text}\n")
    return folder


def checked(command, folder):
    """Names of the programs that have errors, and all that was said."""
    files = sorted(folder.glob("*.py"))
    done = subprocess.run(
        [*command, *files], cwd=ROOT, capture_output=True, text=True, check=False, timeout=500
    )
    said = done.stdout + done.stderr
    return {Path(each).stem for each in re.findall(r"^\s*(\S+\.py):\d+.*error", said, re.M)}, said


def command_of(checker):
    if checker == "mypy":
        return [sys.executable, "-m", "mypy", "--strict", "--no-pretty"]
    if PYRIGHT is None:
        pytest.skip("pyright is not installed: pip install pyright")
    return [PYRIGHT, "--pythonpath", sys.executable]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_see_the_mistakes_and_nothing_else(programs, checker):
    wrong, said = checked(command_of(checker), programs)
    assert wrong == {path.stem for path in programs.glob("bad_*.py")}, said


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_ten_mistakes_of_a_user_project_are_reported(tmp_path, checker):
    program = tmp_path / "shop.py"
    program.write_text(PROJECT)
    done = subprocess.run(
        [*command_of(checker), program], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=500,
    )  # fmt: skip
    found = {int(each) for each in re.findall(r"shop\.py:(\d+).*error", done.stdout)}
    lines = PROJECT.splitlines()
    mistakes = {number for number, line in enumerate(lines, 1) if "# mistake" in line}
    assert len(mistakes) == 10
    # A checker may report a decorated function at its `def`, the line after the decorator.
    reported = {
        each - 1 if lines[each - 1].startswith(("def", "async")) else each for each in found
    }
    assert reported == mistakes, done.stdout


def two(message, more):
    """Takes too much."""


async def none():
    """Takes too little."""


def keyword(message, *, more):
    """Needs a keyword."""


def generator(message):
    yield message


async def async_generator(message):
    yield message


class Handler:
    """A class is no listener, an object of it may be."""

    def __init__(self, message):
        pass


WRONG = [two, none, keyword, generator, async_generator, Handler, 5, None, "take", lambda: None]


@pytest.mark.parametrize("package", [cometmq, blocking])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_listener_is_checked_when_it_is_registered(package, wrong):
    for orderly in (False, True):
        consumer = package.PushConsumer("g", "127.0.0.1:1")
        with pytest.raises(BadSetting, match="a listener is called with a message"):
            consumer.on("T", orderly=orderly)(wrong)


def test_a_listener_of_lists_is_told_so():
    consumer = PushConsumer(
        PushConsumerConfig(group="g", consume_message_batch_max_size=2), "127.0.0.1:1"
    )
    with pytest.raises(
        BadSetting, match=r"two\(message, more\) does not fit: .*a list of messages"
    ):
        consumer.listen(two)


def good(message, more=None):
    """Takes what it is given."""


async def good_async(*messages):
    """As does this one."""


class Callable:
    """An object that can be called."""

    def __call__(self, message):
        pass

    async def take(self, message):
        pass


@pytest.mark.parametrize("right", [good, good_async, Callable(), Callable().take, print])
def test_what_fits_is_accepted(right):
    PushConsumer("g", "127.0.0.1:1").on("T")(right)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_transaction_check_is_checked(wrong):
    with pytest.raises(BadSetting, match="check is called with a message"):
        TransactionProducer("g", "127.0.0.1:1", check=wrong)


def test_java_listeners_are_checked():
    consumer = compat.DefaultMQPushConsumer("g")
    consumer.registerMessageListener(two)
    for wrong in (none, lambda messages: None, 5):
        with pytest.raises(BadSetting, match="called with a list of messages and a context"):
            consumer.registerMessageListener(wrong)
        with pytest.raises(BadSetting, match="called with a list of messages and a context"):
            compat.MessageListenerOrderly(wrong)
    with pytest.raises(BadSetting, match="it has no executeLocalTransaction"):
        compat.TransactionMQProducer("g").setTransactionListener(lambda message: None)


def test_a_local_transaction_is_checked_before_anything_is_sent():
    producer = TransactionProducer("g", "127.0.0.1:1", check=good)
    for wrong, with_sent in ((none, False), (lambda message: None, True)):
        sending = producer.send_in_transaction(Message("T", "x"), wrong, with_sent=with_sent)
        with pytest.raises(BadSetting, match="local is called with a message"):
            sending.send(None)
