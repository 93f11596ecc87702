"""What a consumer wants of a queue: tags by their codes, SQL92 by the properties of a record."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filtering.expressions import Codes, Expressions, NotCompiled
from cometmq.broker.tables.clients import Clients
from cometmq.errors import BadExpression, Malformed, Refused
from cometmq.protocol.bodies.heartbeat import MessageModel, Subscription
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.filter.sql import Condition
from cometmq.protocol.filter.tags import ALL
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.records.message import unpack_record
from cometmq.protocol.records.properties import RETRY_TOPIC
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.queue.reader import UNITS_SCANNED_MAX

_TAG = "TAG"
_ALL = ("*", "")
_KEPT_MAX = 10_000
_FEW_CODES = 64
_CODE_SETS_MAX = 256
_COMPARISONS_A_TURN = 20_000  # of one read of a queue: 2 to 5 ms of the loop
_WITH_SUBSCRIPTION = int(PullFlag.SUBSCRIPTION)

Matcher = Callable[[Mapping[str, str]], bool]


class _Question(msgspec.Struct, frozen=True):
    """Asked of a record with something given: equal to any other that asks the same."""

    ask: Callable[[Any, memoryview], bool]
    given: object

    def __call__(self, record: memoryview) -> bool:
        return self.ask(self.given, record)


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """The two questions a read asks; None where every answer is yes. Equal if they are the same."""

    tag: Callable[[int], bool] | None = None
    record: Callable[[memoryview], bool] | None = None
    units_a_turn: int = UNITS_SCANNED_MAX  # fewer, if the filter compares much for each message

    @property
    def is_costly(self) -> bool:
        """A read must be cut into slices."""
        return self.units_a_turn < UNITS_SCANNED_MAX


EVERYTHING = Wanted()


class Filters:
    """The filter of each pull."""

    def __init__(self, clients: Clients, settings: LiveSettings) -> None:
        self._clients = clients
        self._settings = settings
        self._expressions = Expressions()
        self._tags: dict[Codes, Wanted] = {}
        self._code_sets: dict[int, tuple[list[int], Codes]] = {}  # by the identity of the list

    def check(self, subscription: Subscription) -> None:
        """Raises Refused for an expression that cannot be used here, NotCompiled for a long one."""
        if subscription.class_filter_mode:
            raise Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                "filter classes are not supported; use tags, or SQL92",
            )
        if subscription.expression_type in (_TAG, ""):
            return
        self._check_kind(subscription)
        self._condition(subscription.sub_string)

    def _check_kind(self, subscription: Subscription) -> None:
        if not self._settings.now(BrokerConfig).enable_property_filter:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by "
                f"{subscription.expression_type}; set enablePropertyFilter=true",
            )
        if subscription.expression_type != "SQL92":
            raise _unparsed(f"{subscription.expression_type} is no kind of filter; TAG and SQL92")

    async def compile(self, missing: NotCompiled) -> None:
        """Compile a long expression on the thread. Raises Refused if it cannot be parsed."""
        try:
            await self._expressions.compile_on_thread(missing)
        except BadExpression as error:
            raise _unparsed(str(error)) from error

    def condition_text(self, group: str, topic: str) -> str | None:
        """The condition that skips messages unread. Plain filters have none."""
        return None

    def of_pull(self, ask: PullHeader, group: GroupConfig) -> Wanted:
        """The filter of a pull: its own if it carries one, else what its group last said.

        Raises NotCompiled for a long expression that is not cached.
        """
        own = None
        if ask.sys_flag & _WITH_SUBSCRIPTION:
            kind, text = ask.expression_type or _TAG, ask.subscription or ALL
            if kind == _TAG:
                own = self._of_tags(text)
            else:
                own = self._of_sql(
                    Subscription(topic=ask.topic, sub_string=text, expression_type=kind)
                )
        else:
            subscription = self._said(ask, group)
        if (
            ask.topic.startswith(RETRY_PREFIX)
            and self._settings.now(BrokerConfig).filter_support_retry
        ):
            return self._of_retries(ask.consumer_group)
        return self.of(subscription) if own is None else own

    def of(self, subscription: Subscription) -> Wanted:
        """The filter of a subscription. Raises NotCompiled for a long one that is not cached."""
        if subscription.expression_type in (_TAG, ""):
            if subscription.sub_string in _ALL or subscription.class_filter_mode:
                return EVERYTHING
            if subscription.code_set:
                return self._of_codes(self._code_set(subscription.code_set))
            return self._of_tags(subscription.sub_string)
        return self._of_sql(subscription)

    def _of_tags(self, text: str) -> Wanted:
        if text in _ALL:
            return EVERYTHING
        try:
            return self._of_codes(self._expressions.codes(text))
        except BadExpression as error:
            raise _unparsed(str(error)) from error

    def _code_set(self, codes: list[int]) -> Codes:
        """As a set; that of many codes is made once for each heartbeat, not at each pull."""
        if len(codes) <= _FEW_CODES:
            return frozenset(codes)
        known = self._code_sets.get(id(codes))
        if known is None or known[0] is not codes:
            if len(self._code_sets) >= _CODE_SETS_MAX:
                self._code_sets.clear()
            known = self._code_sets[id(codes)] = codes, frozenset(codes)
        return known[1]

    def _of_codes(self, codes: Codes) -> Wanted:
        wanted = self._tags.get(codes)
        if wanted is None:
            if len(self._tags) >= _KEPT_MAX:
                self._tags.clear()
            wanted = self._tags[codes] = Wanted(tag=codes.__contains__)
        return wanted

    def _of_sql(self, subscription: Subscription) -> Wanted:
        self._check_kind(subscription)
        condition = self._condition(subscription.sub_string)
        return Wanted(
            record=_Question(_matches, condition.matches), units_a_turn=_units(condition.cost)
        )

    def _of_retries(self, group_name: str) -> Wanted:
        """A redelivered message matches if it matches the filter of its first topic."""
        group = self._clients.consumers.get(group_name)
        cost = 1
        for each in group.subscriptions.values() if group is not None else ():
            if each.expression_type not in (_TAG, ""):
                with suppress(Refused):  # reported by the pull that needs it
                    cost = max(cost, self._condition(each.sub_string).cost)
        return Wanted(record=_Question(self._wants_retried, group_name), units_a_turn=_units(cost))

    def _wants_retried(self, group_name: str, record: memoryview) -> bool:
        group = self._clients.consumers.get(group_name)

        def matches(properties: Mapping[str, str]) -> bool:
            topic = properties.get(RETRY_TOPIC, "")
            subscription = group.subscriptions.get(topic) if group is not None else None
            if subscription is None or subscription.expression_type in (_TAG, ""):
                return True
            return self._condition(subscription.sub_string, blocking=True).matches(properties)

        return _matches(matches, record)

    def _said(self, ask: PullHeader, config: GroupConfig) -> Subscription:
        group = self._clients.consumers.get(ask.consumer_group)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's group info not exist: {ask.consumer_group} sent no heartbeat here",
            )
        if not config.consume_broadcast_enable and group.message_model is MessageModel.BROADCASTING:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{ask.consumer_group}] can not consume by broadcast way",
            )
        subscription = group.subscriptions.get(ask.topic)
        if subscription is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"the consumer's subscription not exist: {ask.consumer_group} to {ask.topic}",
            )
        if subscription.sub_version < ask.sub_version:
            raise Refused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return subscription

    def _condition(self, expression: str, *, blocking: bool = False) -> Condition:
        try:
            return self._expressions.condition(expression, blocking=blocking)
        except BadExpression as error:
            raise _unparsed(str(error)) from error


def _units(cost: int) -> int:
    return max(1, min(UNITS_SCANNED_MAX, _COMPARISONS_A_TURN // cost))


def _matches(matches: Matcher, record: memoryview) -> bool:
    """A damaged record matches no filter."""
    try:
        return matches(unpack_record(record, check_crc=False).properties)
    except Malformed:
        return False


def _unparsed(reason: str) -> Refused:
    return Refused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"parse the consumer's subscription failed: {reason}",
    )
