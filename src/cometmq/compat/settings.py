"""Java's setters and getters; the settings are passed to the client when it starts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from difflib import get_close_matches
from inspect import getattr_static
from typing import Any

from cometmq.blocking.face import Face
from cometmq.blocking.trace import Tracer
from cometmq.client.config import ClientConfig
from cometmq.client.durations import duration_ms, parse_timestamp
from cometmq.client.fields import Seconds, Setting, Text, Whole
from cometmq.compat import alive
from cometmq.compat.arguments import settings_of
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, MessageModel
from cometmq.protocol.names import TRACE_TOPIC

__all__ = ["ConsumeFromWhere", "JavaSettings", "MessageModel"]


class ConsumeFromWhere:
    """Where a new group starts."""

    CONSUME_FROM_LAST_OFFSET = ConsumeFrom.LAST_OFFSET
    CONSUME_FROM_FIRST_OFFSET = ConsumeFrom.FIRST_OFFSET
    CONSUME_FROM_TIMESTAMP = ConsumeFrom.TIMESTAMP


# Java's names and ours, where they differ in more than the spelling.
_RENAMED = {
    "ProducerGroup": "group",
    "ConsumerGroup": "group",
    "NamesrvAddr": "name_servers",
    "UseTLS": "use_tls",
    "ClientIP": "client_ip",
    "PollNameServerInterval": "poll_name_server_interval",
    "HeartbeatBrokerInterval": "heartbeat_broker_interval",
    "PersistConsumerOffsetInterval": "persist_consumer_offset_interval",
    "PullTimeDelayMillsWhenException": "pull_delay_when_exception",
    "MqClientApiTimeout": "api_timeout",
    "SendMsgTimeout": "send_timeout",
    "CompressMsgBodyOverHowmuch": "compress_over",
    "RetryTimesWhenSendFailed": "retries",
    "RetryTimesWhenSendAsyncFailed": "async_retries",
    "RetryAnotherBrokerWhenNotStoreOK": "retry_another_broker_when_not_stored",
    "MaxMessageSize": "message_size_max",
    "ConsumeFromWhere": "consume_from",
    "AllocateMessageQueueStrategy": "allocation",
    "ConsumeThreadMin": "consume_threads",
    "PullThresholdSizeForQueue": "pull_threshold_size_for_queue_mib",
    "PullThresholdSizeForTopic": "pull_threshold_size_for_topic_mib",
    "PullInterval": "pull_interval",
    "SuspendCurrentQueueTimeMillis": "suspend_current_queue_time",
    "ConsumeTimeout": "consume_timeout",
    "AwaitTerminationMillisWhenShutdown": "await_termination_when_shutdown",
    "PollTimeoutMillis": "poll_timeout",
    "AutoCommitIntervalMillis": "auto_commit_interval",
    "TopicMetadataCheckIntervalMillis": "topic_metadata_check_interval",
    "BrokerSuspendMaxTimeMillis": "broker_suspend_max_time",
    "ConsumerTimeoutMillisWhenSuspend": "consumer_timeout_when_suspend",
    "ConsumerPullTimeoutMillis": "consumer_pull_timeout",
}
# Accepted and not used, as in Java, where only the minimum counts; and the setting used.
_UNUSED = {"ConsumeThreadMax": "consume_threads"}
# From Java's form to ours, and back. Durations in milliseconds need no entry.
Converters = tuple[Callable[[Any], Any], Callable[[Any], Any]]
_TRACE_INSTANCE = "PID_CLIENT_INNER_TRACE_PRODUCER"  # as the tracer of Java's clients
_MINUTES = Whole(15, 1, 2**31 // 60_000)
_TIME = Text()
_CONVERTED: dict[str, Converters] = {
    "ConsumeTimeout": (
        lambda minutes: _MINUTES.check("setConsumeTimeout", minutes) * 60,
        lambda seconds: int(seconds // 60),
    ),
    "ConsumeTimestamp": (
        lambda text: parse_timestamp(_TIME.check("setConsumeTimestamp", text)),
        lambda when: when and format(when, "%Y%m%d%H%M%S"),
    ),
}


class JavaSettings:
    """Base of the clients: `setX` and `getX` for every setting X."""

    _config_class: type[Any]
    _default_group = "DEFAULT_CONSUMER"
    _can_trace = True

    def __init__(self, *given: Any) -> None:
        kind = type(self).__name__
        self._values, self._trace = settings_of(given, self._default_group)
        if strange := self._values.keys() - self._known().keys():
            raise TypeError(f"a {kind} has no {', '.join(strange)}")
        if self._trace.is_on and not self._can_trace:
            raise TypeError(f"a {kind} does not support traces")
        self._tracer: Tracer | None = None
        self._unused: dict[str, Any] = {}  # by Java's name
        self._is_started = False

    def __getattr__(self, name: str) -> Any:
        kind, java_name = name[:3], name[3:]
        if kind == "set" or kind == "get" or name.startswith("is"):
            if name.startswith("is"):
                kind, java_name = "get", name[2:]
            field = self._field(java_name)
            if kind == "set":
                return lambda value: self._set(field, java_name, value)
            return lambda: self._get(field, java_name)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def _field(self, java_name: str) -> str:
        known = self._known()
        field = _RENAMED.get(java_name) or _UNUSED.get(java_name) or _snake(java_name)
        if field not in known:
            names = [f"set{each}" for each in _RENAMED if _RENAMED[each] in known]
            names += [f"set{_camel(each)}" for each in known]
            near = get_close_matches(f"set{java_name}", names, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"{type(self).__name__} has no setting {java_name}{hint}")
        return field

    def _known(self) -> dict[str, type[Any]]:
        """Return the configuration class of every setting."""
        return {
            each.name: owner
            for owner in (ClientConfig, self._config_class)
            for each in fields(owner)
        }

    def _set(self, field: str, java_name: str, value: Any) -> None:
        if self._is_started:
            raise Closed(f"call set{java_name} before start()")
        if java_name in _UNUSED:
            self._unused[java_name] = value
            return
        # Checked here, under Java's name, and not by start().
        setting = self._setting(field)
        if java_name in _CONVERTED:
            value = _CONVERTED[java_name][0](value)
        elif isinstance(setting, Seconds):
            value = setting.in_ms.check(f"set{java_name}", value) / 1000
        if setting is not None:
            setting.check(f"set{java_name}", value)
        self._values[field] = value

    def _get(self, field: str, java_name: str) -> Any:
        if java_name in self._unused:
            return self._unused[java_name]
        value: Any = self._values.get(field, getattr(self._known()[field], field, None))
        if java_name in _CONVERTED:
            return _CONVERTED[java_name][1](value)
        return duration_ms(value) if isinstance(self._setting(field), Seconds) else value

    def _setting(self, field: str) -> Setting[Any, Any] | None:
        """None: the field is `group`, which is checked by start()."""
        found = getattr_static(self._known()[field], field, None)
        return found if isinstance(found, Setting) else None

    def _check_not_started(self) -> None:
        if self._is_started:
            raise Closed("the client is already started: create another one")

    @contextmanager
    def _beginning(self, face: Face[Any], client: ClientConfig) -> Iterator[Tracer | None]:
        """Start the client after the body of the `with` block; close it if that fails.

        Yields a started tracer if traces are enabled; the body adds its hooks.
        """
        tracer = self._tracer_of(client) if self._trace.is_on else None
        try:
            if tracer is not None:
                tracer.start()
            yield tracer
            face.start()
        except BaseException:
            _close(face, tracer)
            raise
        self._tracer = tracer
        alive.hold(self)
        self._is_started = True

    def _tracer_of(self, client: ClientConfig) -> Tracer:
        # A separate client without a namespace: all traces are in one topic.
        client = replace(client, namespace="", instance_name=_TRACE_INSTANCE)
        return Tracer(client=client, topic=self._trace.topic or TRACE_TOPIC)

    def _end(self, face: Face[Any]) -> None:
        """Close the client, then its tracer; it no longer keeps the process alive."""
        try:
            _close(face, self._tracer)
        finally:
            alive.release(self)

    def _configs(self) -> tuple[ClientConfig, Any]:
        known, given = self._known(), dict(self._values)
        try:
            client = ClientConfig(
                **{name: value for name, value in given.items() if known[name] is ClientConfig}
            )
            own = self._config_class(
                **{name: value for name, value in given.items() if known[name] is not ClientConfig}
            )
        except TypeError as error:
            raise BadSetting(str(error)) from error
        return client, own


def _close(face: Face[Any], tracer: Tracer | None) -> None:
    try:
        face.close()
    finally:
        if tracer is not None:
            tracer.close()


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("_")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
