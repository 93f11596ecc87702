"""The user's functions of one push consumer, and which of them receives a message.

A consumer subscribes to each topic once. If several functions want tags of one topic, it subscribes
to the union of their tags, and each message goes to the function of its tag:

    on("orders", tags="paid")               messages tagged "paid"
    on("orders", tags="sent || returned")   messages tagged "sent" or "returned"
    on("orders")                            all other messages of the topic
    listen(function)                        messages of subscribed topics without a function

A message that no function wants is acknowledged and skipped. A single function receives every
message, including retries of topics that it has unsubscribed from.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from cometmq.client.callables import check_callable
from cometmq.client.consumer.shared.outcomes import Outcome
from cometmq.client.message import ReceivedMessage
from cometmq.errors import BadExpression, BadSetting, Malformed
from cometmq.protocol.filter.tags import ALL, wanted_tags
from cometmq.protocol.names import with_namespace

log = logging.getLogger(__name__)

HandlerResult = Outcome | None
Handler = (
    Callable[[ReceivedMessage], HandlerResult]
    | Callable[[ReceivedMessage], Awaitable[HandlerResult]]
    | Callable[[list[ReceivedMessage]], HandlerResult]
    | Callable[[list[ReceivedMessage]], Awaitable[HandlerResult]]
)
_WARNED_MAX = 1000  # topics


class MessageHandler:
    """A function of the user: a plain function, run in a thread, or a coroutine function."""

    __slots__ = ("function", "is_async", "name")

    def __init__(self, function: Handler, batch_max: int = 1) -> None:
        argument = "a message" if batch_max == 1 else "a list of messages"
        check_callable("a listener", function, argument)
        self.function = function
        self.name: str = getattr(function, "__qualname__", None) or repr(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        )


@dataclass(slots=True)
class _TopicHandlers:
    """The functions of one topic, and the filter that they need together."""

    by_tag: dict[str, MessageHandler] = field(default_factory=dict)
    rest: MessageHandler | None = None  # of messages without a function of their own
    sql: str | None = None  # then `rest` is the only function
    expressions: list[str] = field(default_factory=list)  # the tags of `on`, as they were written
    explicit: str | None = None  # the tags of `subscribe`

    @property
    def tags(self) -> str:
        """The union of all tags that are wanted."""
        parts = [*self.expressions, *([] if self.explicit is None else [self.explicit])]
        if any(wanted_tags(part) is None for part in parts):
            return ALL
        return " || ".join(dict.fromkeys(parts))


class Handlers:
    """See the top of the file. It belongs to the loop."""

    def __init__(self, namespace: str = "") -> None:
        self._namespace = namespace
        self._default: MessageHandler | None = None
        self._topics: dict[str, _TopicHandlers] = {}  # by topic as on the wire
        self._warned: set[str] = set()  # topics whose skipped messages were logged
        self.only: MessageHandler | None = None  # the single function, if there is only one

    def __len__(self) -> int:
        return len(self._functions())

    def set_default(self, handler: MessageHandler) -> None:
        """Send messages without a function of their own to this one.

        Raises BadSetting if there is another.
        """
        default = self._default
        if default is not None and default.function is not handler.function:
            raise BadSetting(
                f"{default.name} already receives the messages of this consumer: use"
                " on(topic, tags) for several functions"
            )
        if default is None:
            self._default = handler
        self._changed()

    def subscribe(self, topic: str, tags: str, sql: str | None) -> tuple[str, str | None]:
        """Replace the filter that `subscribe` set; return the tags and SQL of the whole topic."""
        wire_topic = self._wire(topic)
        chosen = self._copy(wire_topic)
        if sql is not None:
            if chosen.by_tag or chosen.rest is not None:
                raise BadSetting(f"topic {topic} has functions chosen by tags: do not add sql")
            self._topics.pop(wire_topic, None)
            return tags, sql
        chosen.explicit, chosen.sql = tags, None
        try:
            union = chosen.tags
        except BadExpression as error:
            raise BadSetting(str(error)) from error
        self._topics[wire_topic] = chosen
        return union, None

    def add(
        self, topic: str, tags: str, sql: str | None, handler: MessageHandler
    ) -> tuple[str, str | None]:
        """Send messages of a topic to this function; return the tags and SQL of the whole topic.

        Raises BadSetting if another function receives them.
        """
        wire_topic = self._wire(topic)
        chosen = self._copy(wire_topic)
        others = {each.name for each in _all(chosen) if each.function is not handler.function}
        if others and (sql is not None or chosen.sql is not None):
            raise BadSetting(
                f"topic {topic} has {others.pop()}: a topic with sql has one function only"
            )
        if sql is not None:
            chosen = _TopicHandlers(rest=handler, sql=sql)
        else:
            _claim(chosen, topic, tags, handler)
        self._topics[wire_topic] = chosen
        self._changed()
        return (tags, sql) if sql is not None else (chosen.tags, None)

    def remove(self, topic: str) -> None:
        """Forget the functions of a topic."""
        self._topics.pop(self._wire(topic), None)
        self._changed()

    def of(self, message: ReceivedMessage) -> MessageHandler | None:
        """The function that receives this message; None if no function wants it."""
        if self.only is not None:
            return self.only
        try:
            topic, tag = message.origin_topic, message.tags
        except Malformed:
            return self._functions()[0]  # it fails there, and the message is skipped
        chosen = self._topics.get(topic)
        found = None if chosen is None else chosen.by_tag.get(tag or "") or chosen.rest
        found = found or self._default
        if found is None:
            self._report(topic, message)
        return found

    def _report(self, topic: str, message: ReceivedMessage) -> None:
        is_first = topic not in self._warned and len(self._warned) < _WARNED_MAX
        if is_first:
            self._warned.add(topic)
        level = logging.WARNING if is_first else logging.DEBUG
        log.log(level, "%s with tags %s is skipped: no function wants it", message, message.tags)

    def _wire(self, topic: str) -> str:
        return with_namespace(self._namespace, topic)

    def _copy(self, wire_topic: str) -> _TopicHandlers:
        known = self._topics.get(wire_topic) or _TopicHandlers()
        return replace(known, by_tag=dict(known.by_tag), expressions=list(known.expressions))

    def _functions(self) -> list[MessageHandler]:
        found = [each for chosen in self._topics.values() for each in _all(chosen)]
        if self._default is not None:
            found.append(self._default)
        return list({id(each.function): each for each in found}.values())

    def _changed(self) -> None:
        functions = self._functions()
        self.only = functions[0] if len(functions) == 1 else None


def _all(chosen: _TopicHandlers) -> list[MessageHandler]:
    return [*chosen.by_tag.values(), *([] if chosen.rest is None else [chosen.rest])]


def _claim(chosen: _TopicHandlers, topic: str, tags: str, handler: MessageHandler) -> None:
    try:
        wanted = wanted_tags(tags)
    except BadExpression as error:
        raise BadSetting(str(error)) from error
    claimed = [chosen.rest] if wanted is None else [chosen.by_tag.get(tag) for tag in wanted]
    for other in claimed:
        if other is not None and other.function is not handler.function:
            raise BadSetting(f"{other.name} already receives {tags} of topic {topic}")
    chosen.sql = None
    chosen.expressions.append(tags)
    if wanted is None:
        chosen.rest = handler
    else:
        chosen.by_tag |= dict.fromkeys(wanted, handler)
