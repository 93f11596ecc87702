"""A name server and broker in one that stores nothing: it costs little, so that a client shows.

Answers any send with success, and any question for a route with itself. Prints its port.
"""

import asyncio
import struct
import sys

from cometmq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.java.fastjson import dumps

QUEUES = 4
_unpack_size = struct.Struct(">i").unpack_from
_pack_prefix = struct.Struct(">iI").pack
_SENDS = (b'{"code":310,', b'{"code":320,')
_ROUTE = b'{"code":%d,' % RequestCode.GET_ROUTEINFO_BY_TOPIC
_SENT = (
    b'{"code":0,"extFields":{"msgId":"7F00000100002A9F0000000000000000","queueId":"%b",'
    b'"queueOffset":"0","MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,'
    b'"language":"JAVA","opaque":%b,"serializeTypeCurrentRPC":"JSON","version":407}'
)
_DONE = b'{"code":0,"flag":1,"language":"JAVA","opaque":%b,"version":407}'


class Fake(asyncio.Protocol):
    def __init__(self, route: bytes) -> None:
        self._route = route
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._unread + data if self._unread else data
        at, end, answers = 0, len(data), []
        while end - at >= 4 and end - at >= (size := 4 + _unpack_size(data, at)[0]):
            answers.append(self._answer(data, at, at + size))
            at += size
        self._unread = data[at:]
        self._transport.write(b"".join(answers))

    def _answer(self, data: bytes, at: int, end: int) -> bytes:
        opaque_at = data.index(b'"opaque":', at) + 9
        opaque = data[opaque_at : data.index(b",", opaque_at)]
        if data.startswith(_SENDS, at + 8):
            queue_at = data.index(b'"e":"', at) + 5
            head = _SENT % (data[queue_at : data.index(b'"', queue_at)], opaque)
            return _pack_prefix(4 + len(head), len(head)) + head
        body = self._route if data.startswith(_ROUTE, at + 8) else b""
        head = _DONE % opaque
        return _pack_prefix(4 + len(head) + len(body), len(head)) + head + body


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Fake(route), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    route = dumps(
        TopicRoute(
            broker_datas=[
                BrokerData(
                    cluster="fake", broker_name="fake", broker_addrs={0: f"127.0.0.1:{port}"}
                )
            ],
            queue_datas=[
                QueueData(
                    broker_name="fake", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6,
                    topic_sys_flag=0,
                )
            ],
        )
    )  # fmt: skip
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
