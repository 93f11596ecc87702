"""Settings: RocketMQ's names in files and on the command line, typed structs inside.

A settings struct lists what it knows; a description and bounds stand with each field. A key that
nobody knows is refused with the nearest known one: in the original a typing error goes unnoticed.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import msgspec

from cometmq.errors import BadSetting
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.java.values import format_properties, java_text, parse_properties

log = logging.getLogger(__name__)


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Settings(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base of each process's settings."""

    has_effect: ClassVar[bool] = True  # False: stored and shown, and nothing reads it


S = TypeVar("S", bound=Settings)

# Java's types: an integer setting is an int, but for these.
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_LONGS = frozenset(
    {
        "brokerId",
        "channelNotActiveInterval",
        "consumerFallbehindThreshold",
        "filterDataCleanTimeSpan",
        "flushDelayOffsetInterval",
        "osPageCacheBusyTimeOutMills",
        "shortPollingTimeMills",
        "startAcceptSendRequestTimeStamp",
        "transactionCheckInterval",
        "transactionTimeOut",
        "waitTimeMillsInHeartbeatQueue",
        "waitTimeMillsInPullQueue",
        "waitTimeMillsInSendQueue",
        "waitTimeMillsInTransactionQueue",
    }
)
_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")

SECRET = frozenset({"tls.server.keyPassword"})  # never shown, in no log, reply or listing

# Keys that 4.9.7 does not know, and that are in many files: accepted, and named once in the log.
NOT_OF_4_9 = frozenset(
    {
        "abortFile",
        "autoTraceBrokerEnable",
        "configBlackList",
        "mapedFileSizeCommitLog",
        "mapedFileSizeConsumeQueue",
        "serverNettyWorkerGroupEnable",
        "storeCheckpoint",
        "storePathConsumeQueue",
        "storePathIndex",
    }
)

# Apache's broker takes an empty value of these for a value: what is shown must not have one.
_UNSET_IF_EMPTY = frozenset({"storePathCommitLog"})

# Those that promise what is not here, and the value with which they promise nothing: to start as
# if nobody had asked would lose messages, or hide them.
PROMISES = {
    "enableDLegerCommitLog": "false",
    "enableLmq": "false",
    "enableMultiDispatch": "false",
    "messageStorePlugIn": "",
    "readOnlyCommitLogStorePaths": "",
}


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`key=value` arguments of a command line."""
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise BadSetting(f"{pair!r} is not key=value")
        found[key.strip()] = value.strip()
    return found


def parse_file(content: bytes, name: str) -> dict[str, str]:
    """A .properties file, such as broker.conf."""
    try:
        return {key: value.strip() for key, value in parse_properties(content.decode()).items()}
    except UnicodeDecodeError as error:
        raise BadSetting(f"{name} is not UTF-8 text: {error}") from error


def build(
    shape: type[S],
    values: Mapping[str, str],
    *,
    base: S | None = None,
    ignored: AbstractSet[str] = frozenset(),
) -> S:
    """Settings with these values over the defaults, or over `base`; BadSetting names the key."""
    (built,) = build_all((shape,), values, base=() if base is None else (base,), ignored=ignored)
    return cast(S, built)


def build_all(
    shapes: Sequence[type[Settings]],
    values: Mapping[str, str],
    *,
    base: Sequence[Settings] = (),
    ignored: AbstractSet[str] = frozenset(),
) -> tuple[Settings, ...]:
    """As `build`, for several kinds of settings that share one file.

    Keys of `ignored` are accepted although no shape has them.
    """
    check_known(values.keys(), shapes, ignored)
    for key, nothing in PROMISES.items():
        if values.get(key, nothing).lower() != nothing:
            raise BadSetting(f"{key}={values[key]}: this version has no such thing")
    effective = {key for each in shapes if each.has_effect for key in each.__struct_encode_fields__}
    unused = sorted(values.keys() - effective)
    if unused and not base:  # at start
        log.info("settings without effect: %s", ", ".join(unused))
    kinds = {key: kind for shape in shapes for key, kind in _kinds(shape).items()}
    texts = {key: text for each in base for key, text in as_texts(each).items()}
    texts |= {key: _as_java_reads(key, text, kinds.get(key)) for key, text in values.items()}
    try:
        return tuple(msgspec.convert(texts, shape, strict=False) for shape in shapes)
    except msgspec.ValidationError as error:
        raise BadSetting(_told(str(error), texts)) from error


def check_known(
    keys: AbstractSet[str],
    shapes: Sequence[type[Settings]],
    ignored: AbstractSet[str] = frozenset(),
) -> None:
    """BadSetting for keys that no shape has, with the nearest that one has."""
    known = {key for shape in shapes for key in shape.__struct_encode_fields__}
    unknown = sorted(keys - known - ignored - NOT_OF_4_9)
    if unknown:
        told = [f"{key}{_hint(key, known)}" for key in unknown]
        raise BadSetting(f"unknown setting{'s' * (len(told) > 1)} {', '.join(told)}")


@cache
def _kinds(shape: type[Settings]) -> dict[str, Any]:
    """The plain type of each setting, by its key."""
    return {field.encode_name: _plain(field.type) for field in msgspec.structs.fields(shape)}


def _plain(kind: Any) -> Any:
    return _plain(kind.__origin__) if hasattr(kind, "__metadata__") else kind


def _as_java_reads(key: str, text: str, kind: Any) -> str:
    """Numbers and booleans in Java's forms and ranges; BadSetting for other forms.

    Boolean.parseBoolean takes every text but `true` for false: a text that is neither is refused.
    """
    if kind is bool and text.lower() not in ("true", "false"):
        raise BadSetting(f"{key}={text}: expected true or false")
    if kind is int:
        most = _LONG_MAX if key in _LONGS else _INT_MAX
        if not _INTEGER.fullmatch(text):
            raise BadSetting(f"{key}={text}: expected an integer")
        number = int(text)
        if not -most - 1 <= number <= most:
            raise BadSetting(f"{key}={text}: expected an integer from {-most - 1} to {most}")
        return str(number)
    return text


def _told(problem: str, texts: Mapping[str, str]) -> str:
    """With the setting first: the converter names it last, as a path."""
    what, _, path = problem.rpartition(" - at `$.")
    key = path.removesuffix("`")
    if key not in texts or key in SECRET:
        return f"bad setting: {problem}"
    return f"{key}={texts[key]}: {what[0].lower()}{what[1:]}"


def _hint(key: str, known: set[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def as_texts(settings: Settings) -> dict[str, str]:
    """Wire names and values, as a properties file holds them; what is None is left out."""
    names = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    return {
        wire: java_text(msgspec.to_builtins(value))
        for name, wire in names
        if (value := getattr(settings, name)) is not None
    }


def as_properties(*settings: Settings) -> str:
    """The text that getNamesrvConfig and getBrokerConfig show: all but the secrets."""
    texts = {key: text for each in settings for key, text in as_texts(each).items()}
    for key in SECRET:
        texts.pop(key, None)
    for key in _UNSET_IF_EMPTY:
        if texts.get(key) == "":
            del texts[key]
    return format_properties(texts)
