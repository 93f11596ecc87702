"""Simulates Spark for a sink: consecutive batches of two partitions, and a checkpoint.

A batch that is not in the checkpoint runs again, with the same number and the same rows in another
order, like after a shuffle. Tests kill this process at any moment:

    python player.py SERVER TOPIC FILE BATCHES DELIVERY
"""

import random
import sys
from pathlib import Path

import pyarrow as pa

from cometmq.spark.write.already_stored import WriteAttempt
from cometmq.spark.write.sink import RocketMQStreamWriter, WriteOptions, Written, _write

ROWS = 300  # per partition
PARTITIONS = 2


def batch_of(number: int, partition: int) -> list[pa.RecordBatch]:
    first = (number * PARTITIONS + partition) * ROWS
    bodies = [
        f"{each // 2 * 2:010d}".encode() for each in range(first, first + ROWS)
    ]  # each body twice
    random.shuffle(bodies)
    cut = random.randrange(1, ROWS)
    return [pa.RecordBatch.from_pydict({"body": some}) for some in (bodies[:cut], bodies[cut:])]


def play(server: str, topic: str, checkpoint: Path, batches: int, delivery: str) -> None:
    given = {"nameServer": server, "topic": topic, "delivery": delivery}
    options = WriteOptions.of(given, {"body": "binary"})
    begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for number in range(begin, batches):
        messages: list[Written] = []
        for partition in range(PARTITIONS):
            attempt = WriteAttempt("player", str(number), partition, False)
            messages.append(_write(options, attempt, iter(batch_of(number, partition))))
        RocketMQStreamWriter(options).commit(messages, number)
        spare = checkpoint.with_suffix(".new")
        spare.write_text(str(number + 1))
        spare.replace(checkpoint)
        print(number, flush=True)


if __name__ == "__main__":
    play(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
