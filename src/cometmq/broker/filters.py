"""What a consumer wants of a queue: tags by their codes, SQL92 by the properties of a record."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cometmq.broker.clients import Clients
from cometmq.broker.config import BrokerConfig
from cometmq.errors import BadExpression, Malformed, Refused
from cometmq.live_settings import LiveSettings
from cometmq.protocol.bodies.heartbeat import MessageModel, Subscription
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.filter.tags import subscription_of, tag_codes
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader
from cometmq.protocol.message import unpack_record
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.properties import RETRY_TOPIC

_TAG = "TAG"
_ALL = ("*", "")
_KEPT_MAX = 10_000
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


EVERYTHING = Wanted()


class Filters:
    """The filter of each pull."""

    def __init__(self, clients: Clients, settings: LiveSettings) -> None:
        self._clients = clients
        self._settings = settings
        self._matchers: dict[str, Matcher] = {}
        self._tags: dict[tuple[int, ...], Wanted] = {}

    def check(self, subscription: Subscription) -> None:
        """Refuse an expression that could not be used here."""
        if subscription.class_filter_mode:
            raise Refused(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                "filter classes are not supported; use tags, or SQL92",
            )
        if subscription.expression_type in (_TAG, ""):
            return
        if not self._settings.now(BrokerConfig).enable_property_filter:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "The broker does not support consumer to filter message by "
                f"{subscription.expression_type}; set enablePropertyFilter=true",
            )
        if subscription.expression_type != "SQL92":
            raise _unparsed(f"{subscription.expression_type} is no kind of filter; TAG and SQL92")
        self._matcher(subscription.sub_string)

    def condition_text(self, group: str, topic: str) -> str | None:
        """The condition by which a group passes messages over unread; there is none here."""
        return None

    def of_pull(self, ask: PullHeader, group: GroupConfig) -> Wanted:
        """The filter of a pull: its own if it carries one, else what its group last said."""
        if ask.sys_flag & _WITH_SUBSCRIPTION:
            kind = ask.expression_type or _TAG
            try:
                subscription = subscription_of(ask.topic, ask.subscription or "*", kind)
            except BadExpression as error:
                raise _unparsed(str(error)) from error
        else:
            subscription = self._said(ask, group)
        if (
            ask.topic.startswith(RETRY_PREFIX)
            and self._settings.now(BrokerConfig).filter_support_retry
        ):
            return Wanted(record=_Question(self._wants_retried, ask.consumer_group))
        return self.of(subscription)

    def of(self, subscription: Subscription) -> Wanted:
        """The filter of a subscription."""
        if subscription.expression_type in (_TAG, ""):
            if subscription.sub_string in _ALL or subscription.class_filter_mode:
                return EVERYTHING
            codes = subscription.code_set or tag_codes(subscription.sub_string) or ()
            return self._wanted_tags(tuple(codes))
        self.check(subscription)
        return Wanted(record=_Question(_matches, self._matcher(subscription.sub_string)))

    def _wants_retried(self, group_name: str, record: memoryview) -> bool:
        """A message that comes again is wanted if the filter of its first topic says so."""
        group = self._clients.consumers.get(group_name)

        def matches(properties: Mapping[str, str]) -> bool:
            topic = properties.get(RETRY_TOPIC, "")
            subscription = group.subscriptions.get(topic) if group is not None else None
            if subscription is None or subscription.expression_type in (_TAG, ""):
                return True
            return self._matcher(subscription.sub_string)(properties)

        return _matches(matches, record)

    def _wanted_tags(self, codes: tuple[int, ...]) -> Wanted:
        wanted = self._tags.get(codes)
        if wanted is None:
            if len(self._tags) >= _KEPT_MAX:
                self._tags.clear()
            wanted = self._tags[codes] = Wanted(tag=frozenset(codes).__contains__)
        return wanted

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

    def _matcher(self, expression: str) -> Matcher:
        matcher = self._matchers.get(expression)
        if matcher is None:
            if len(self._matchers) >= _KEPT_MAX:
                self._matchers.clear()
            try:
                matcher = self._matchers[expression] = compile_sql(expression)
            except BadExpression as error:
                raise _unparsed(str(error)) from error
        return matcher


def _matches(matches: Matcher, record: memoryview) -> bool:
    """A damaged record is nobody's."""
    try:
        return matches(unpack_record(record, check_crc=False).properties)
    except Malformed:
        return False


def _unparsed(reason: str) -> Refused:
    return Refused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        f"parse the consumer's subscription failed: {reason}",
    )
