"""Sends of code that does not await: interrupted ones, and what the caller's own code raises."""

import asyncio

import pytest

from client.fake_cluster import SILENT, fake_cluster, run
from cometmq.blocking.producer import Producer
from cometmq.client.loop import LoopCall
from cometmq.client.message import Message

ORDER = Message("orders", b"one")


def in_a_thread(work):
    """Given a cluster, with a producer that is warm; the cluster runs on this thread's loop."""

    async def test():
        async with fake_cluster("a", "b") as cluster:

            def there():
                with Producer("senders", cluster.name_servers) as producer:
                    for _ in range(4):
                        producer.send(ORDER)
                    work(cluster, producer)

            await asyncio.to_thread(there)

    run(test)


async def under_way(producer):
    """How many sends are, looked at on the loop that runs them."""
    return producer._core._sender.in_flight


def test_an_interrupted_send_is_over(monkeypatch):
    def interrupted(cluster, producer):
        before = len(cluster.sends)
        for broker in cluster.brokers:
            broker.answers = [SILENT] * 3

        def wait(call):
            while len(cluster.sends) == before:
                pass  # as long as no broker has it
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(LoopCall, "wait", wait)
            with pytest.raises(KeyboardInterrupt):
                producer.send(ORDER, timeout=60)
        assert producer._loop.wait(under_way(producer)) == 0
        assert not any(map(len, (each._calls for each in producer._core._session.pool._alive)))
        assert len(cluster.sends) == before + 1, "and is not tried again"

    in_a_thread(interrupted)


def test_what_lists_a_batch_raises_in_its_own_thread():
    def messages():
        yield ORDER
        raise ValueError("as the test says")

    def listed(cluster, producer):
        outcomes = []
        with pytest.raises(ValueError, match="as the test says"):
            producer.send_batch_soon(messages(), outcomes.append)
        producer.send_batch_soon((ORDER for _ in range(3)), outcomes.append)
        producer.flush()
        ((result,),) = outcomes
        assert result.message_id.count(",") == 2

    in_a_thread(listed)
