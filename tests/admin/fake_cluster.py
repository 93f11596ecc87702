"""Fake servers behind an admin session, with responses that a test defines."""

from cometmq.admin.session import AdminConfig, AdminSession
from cometmq.errors import Unreachable
from cometmq.protocol.bodies.route import BrokerData, ClusterInfo, TopicList, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.java.fastjson import dumps

NAMESRV = "127.0.0.1:9876"
BROKERS = {"a": "127.0.0.1:10911", "b": "127.0.0.1:20911"}


class FakeCluster:
    """Two brokers that serve every topic; tests change what they answer."""

    def __init__(self, *topics):
        brokers = [
            BrokerData(broker_name=name, cluster="c", broker_addrs={0: address})
            for name, address in BROKERS.items()
        ]
        self._answers = {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList(topic_list=list(topics)),
            RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRoute(broker_datas=brokers),
            RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo(
                broker_addr_table={each.broker_name: each for each in brokers},
                cluster_addr_table={"c": list(BROKERS)},
            ),
        }
        self._at = {}
        self.down = set()  # addresses

    def session(self):
        """A tool that talks to it."""
        admin = AdminSession(AdminConfig(name_servers=(NAMESRV,)))
        admin.invoke = self._invoke
        return admin

    def answers(self, code, answer, at=None):
        """With a body, a code that is no success, an error to raise, or what a function makes."""
        if at is None:
            self._answers[code] = answer
        else:
            self._at[at, code] = answer

    async def _invoke(self, address, code, header=None, body=b"", *, timeout_ms=None):
        if address in self.down:
            raise Unreachable(f"no connection to {address}")
        answer = self._at.get((address, code), self._answers.get(code))
        if callable(answer):
            answer = answer(header)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ResponseCode):
            return Command(code=answer, remark="the test wants it so")
        return Command(code=ResponseCode.SUCCESS, body=b"" if answer is None else dumps(answer))
