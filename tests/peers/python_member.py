"""A member of groups in a process of its own: the program that java/Member.java is, in Python."""

import asyncio
import json
import sys
import threading
import time
from typing import Any

from cometmq.client.config import ClientConfig, PushConsumerConfig
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.consumer.shared import allocate
from cometmq.client.message import ReceivedMessage
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from cometmq.protocol.bodies.queues import MessageQueue

_speaking = threading.Lock()


def say(**values: Any) -> None:
    """One line, whole, whatever other threads say."""
    with _speaking:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def strategy(topic: str, name: str, given: str) -> allocate.Allocation:
    """By the words of the Java program."""
    match name:
        case "AVG":
            return allocate.Averagely()
        case "CIRCLE":
            return allocate.AveragelyByCircle()
        case "HASH":
            return allocate.ConsistentHash()
        case "CONFIG":
            places = [place.split("/") for place in given.split(",")]
            return allocate.ByConfig(tuple(MessageQueue(topic, a, int(b)) for a, b in places))
        case "ROOM":
            return allocate.ByMachineRoom(frozenset({given}))
    raise ValueError(name)


async def join(namesrv: str, topic: str, group: str, *how: str) -> PushConsumer:
    """A consumer that tells what it consumes."""
    name, given, order, sleep_ms = how
    config = PushConsumerConfig(
        group=group, consume_from=ConsumeFrom.FIRST_OFFSET, allocation=strategy(topic, name, given)
    )
    client = ClientConfig(
        name_servers=namesrv, poll_name_server_interval=1, pull_delay_when_exception=0.2
    )
    consumer = PushConsumer(config, client=client)

    def handler(message: ReceivedMessage) -> None:
        begun_ms = time.time_ns() // 1_000_000
        time.sleep(int(sleep_ms) / 1000)
        say(
            event="message", group=group, broker=message.broker_name, queue=message.queue_id,
            offset=message.queue_offset, body=message.text(), begun=begun_ms,
            ended=time.time_ns() // 1_000_000,
        )  # fmt: skip

    consumer.subscribe(topic)
    consumer.listen(handler, orderly=order == "orderly")
    await consumer.start()
    return consumer


async def main(namesrv: str) -> None:
    """Until stdin ends."""
    consumers: dict[str, PushConsumer] = {}
    say(event="started")
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, *words = line.rstrip("\n").split("\t")
        if verb == "join":
            consumers[words[1]] = await join(namesrv, *words)
            say(event="joined", client=consumers[words[1]].client_id)
        elif verb == "share":
            queues = consumers[words[0]].queues
            say(event="share", queues=[f"{each.broker_name}/{each.queue_id}" for each in queues])
        else:
            await consumers.pop(words[0]).close()
            say(event="left")
    for consumer in consumers.values():
        await consumer.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
