"""Transactions: what the broker is told of them, whatever happens to the local one."""

import asyncio
import threading

import pytest

from client.fake_cluster import fake_cluster, run, until
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.message import Message
from cometmq.client.send.transaction import TransactionProducer, TransactionState
from cometmq.errors import BadMessage
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.protocol.records.properties import encode_properties

ORDER = Message("orders", b"one")


async def commits(message):
    return TransactionState.COMMIT


def producing(cluster, check=commits, **settings):
    config = ProducerConfig(group="payers", **settings)
    return TransactionProducer(config, cluster.name_servers, check=check)


def test_the_local_transaction_may_be_shown_the_send():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            shown = []
            result = await producer.send_in_transaction(
                ORDER, lambda *given: shown.append(given), with_sent=True
            )
            assert shown == [(ORDER, result.sent)]
            assert (result.state, result.is_told) == (TransactionState.COMMIT, True)
            ((_, end),) = cluster["a"].ends
            assert (end.msg_id, end.commit_or_rollback) == (
                result.sent.message_id,
                MessageFlag.COMMIT,
            )

    run(test)


def test_a_local_transaction_that_hangs_does_not_keep_the_process():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            kinds = []
            await producer.send_in_transaction(
                ORDER, lambda _: kinds.append(threading.current_thread().daemon)
            )
            assert kinds == [True]

    run(test)


def test_closing_waits_for_local_transactions():
    async def test():
        async with fake_cluster() as cluster:
            producer = producing(cluster)
            await producer.start()
            begun, goes_on = asyncio.Event(), asyncio.Event()

            async def local(message):
                begun.set()
                await goes_on.wait()

            sending = asyncio.create_task(producer.send_in_transaction(ORDER, local))
            await begun.wait()
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(0.01)
            goes_on.set()
            await closing
            assert (await sending).is_told
            assert len(cluster["a"].ends) == 1

    run(test)


def test_a_transaction_that_outlasts_close_is_not_reported():
    async def test():
        async with fake_cluster() as cluster:
            producer = producing(cluster, send_timeout=60)
            await producer.start()
            begun, goes_on = threading.Event(), threading.Event()

            def local(message):
                begun.set()
                goes_on.wait(60)

            sending = asyncio.create_task(producer.send_in_transaction(ORDER, local))
            await until(begun.is_set)
            producer._timeout_ms = 10  # for the closing alone
            await producer.close()
            goes_on.set()
            result = await sending
            assert (result.state, result.is_told) == (TransactionState.COMMIT, False)

    run(test)


def test_plain_functions_have_threads_of_their_own():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            names = []
            await producer.send_in_transaction(
                ORDER, lambda message: names.append(threading.current_thread().name)
            )
            assert names[0].startswith("cometmq-transaction")

    run(test)


def test_a_check_is_answered_where_it_was_asked():
    async def test():
        checked, ends = [], Ends()

        def check(message):
            checked.append(message.body)
            return TransactionState.ROLLBACK

        async with fake_cluster() as cluster:
            broker = cluster["a"]
            # The peer is not the address that it was connected by.
            reached = broker.address.replace("127.0.0.1", "localhost")
            client = ClientConfig(name_servers=reached, address_map={broker.address: reached})
            async with TransactionProducer("payers", client=client, check=check) as producer:
                producer.add_hook(ends)
                await producer.send(ORDER)
                await asked(broker)
        assert checked == [b"half"]
        (end,) = ends.seen
        assert (end.topic, end.message_id, end.from_check) == ("orders", "the-key", True)
        assert (end.state, end.region_id) == ("ROLLBACK_MESSAGE", "DefaultRegion")

    async def asked(broker):
        await until(lambda: broker.links)
        half = StoredMessage(
            topic="orders", body=b"half", born_host=Host("127.0.0.1", 1),
            store_host=Host("127.0.0.1", 2), properties_text=encode_properties(
                {"PGROUP": "payers", "UNIQ_KEY": "the-key"}
            ),
        )  # fmt: skip
        header = CheckTransactionHeader(tran_state_table_offset=7, commit_log_offset=9)
        (link,) = broker.links
        await link.send_oneway(
            RequestCode.CHECK_TRANSACTION_STATE, header, pack_record(half), timeout_ms=5000
        )
        await until(lambda: broker.ends)
        ((answered_on, end),) = broker.ends
        assert answered_on is link
        assert (end.commit_log_offset, end.from_transaction_check) == (9, True)
        assert (end.msg_id, end.commit_or_rollback) == ("the-key", MessageFlag.ROLLBACK)

    run(test)


def test_what_a_local_transaction_raises_is_raised():
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            with pytest.raises(ZeroDivisionError):
                await producer.send_in_transaction(ORDER, lambda message: 1 / 0)
            with pytest.raises(BadMessage, match="delayed"):
                await producer.send_in_transaction(Message("orders", b"x", delay_level=1), commits)
            await until(lambda: cluster["a"].ends)
            ((_, end),) = cluster["a"].ends
            assert end.commit_or_rollback == 0

    run(test)


class Ends:
    """A hook of sends and of ends; it fails after it has seen."""

    def __init__(self):
        self.seen = []

    def before_send(self, context):
        """Not looked at."""

    def after_send(self, context):
        """Not looked at."""

    def transaction_ends(self, context):
        self.seen.append(context)
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("local", "state"),
    [
        (lambda message: None, "COMMIT_MESSAGE"),
        (lambda message: TransactionState.ROLLBACK, "ROLLBACK_MESSAGE"),
        (lambda message: 1 / 0, "UNKNOW"),
    ],
)
def test_hooks_see_how_transactions_end_and_their_failures_stop_nothing(local, state):
    async def test():
        async with fake_cluster() as cluster, producing(cluster) as producer:
            ends = Ends()
            producer.add_hook(ends)
            message = Message("orders", b"one", tags="T", keys="k")
            await asyncio.gather(
                producer.send_in_transaction(message, local), return_exceptions=True
            )
            (end,) = ends.seen
            assert (end.group, end.topic, end.tags, end.keys) == ("payers", "orders", "T", ("k",))
            assert (end.state, end.from_check) == (state, False)
            assert end.broker == cluster["a"].address
            await until(lambda: cluster["a"].ends)
            ((_, told),) = cluster["a"].ends
            assert (told.msg_id, told.transaction_id) == (end.message_id, end.transaction_id)

    run(test)
