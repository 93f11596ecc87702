"""Settings: RocketMQ's names in files and on the command line, typed structs inside.

A settings struct defines the keys, with a description and bounds for each. Unknown keys are
rejected with the closest match, unlike in Apache RocketMQ, where a typo goes unnoticed. Errors name
the place of a value (`broker.conf:7`) and the values that are allowed.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import msgspec
import msgspec.inspect

from cometmq.errors import BadSetting
from cometmq.log_event import LogEvent
from cometmq.protocol.java.java_properties import key_lines
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.java.values import format_properties, java_text, parse_properties

log = logging.getLogger(__name__)


@dataclass_transform(frozen_default=True, kw_only_default=True)  # mypy: inherited by subclasses
class Settings(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base class of the settings of a server, a store, or both."""

    has_effect: ClassVar[bool] = True  # False: stored and shown, but never read


S = TypeVar("S", bound=Settings)

# Integer settings that are a long in Java; all others are an int.
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

SECRET = frozenset({"tls.server.keyPassword"})  # never in a log, a reply or a listing

# Keys of many existing files that 4.9.7 does not define: accepted, and logged at start.
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

# Apache's broker treats an empty value of these as set, so they are omitted from listings.
_UNSET_IF_EMPTY = frozenset({"storePathCommitLog"})

# Settings of features that are missing here, and the value that disables each. Any other value is
# rejected: to ignore it would lose or hide messages.
UNSUPPORTED = {
    "enableDLegerCommitLog": "false",
    "enableLmq": "false",
    "enableMultiDispatch": "false",
    "messageStorePlugIn": "",
    "readOnlyCommitLogStorePaths": "",
}


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """The `key=value` arguments of a command line."""
    found = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise BadSetting(f"{pair!r}: expected key=value")
        found[key.strip()] = value.strip()
    return found


def parse_file(content: bytes, name: str) -> dict[str, str]:
    """The keys and values of a .properties file, such as broker.conf."""
    return {key: value.strip() for key, value in parse_properties(_text(content, name)).items()}


def places_in(content: bytes, name: str) -> dict[str, str]:
    """`name:line` of each key of a .properties file, for error messages."""
    lines = key_lines(_text(content, name))
    return {key: f"{name}:{line}" for key, line in lines.items()}


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadSetting(f"{name}: not UTF-8 text: {error}") from error


def build(
    shape: type[S],
    values: Mapping[str, str],
    *,
    base: S | None = None,
    ignored: AbstractSet[str] = frozenset(),
) -> S:
    """A settings struct with these values; other fields come from `base` or are defaults.

    Raises BadSetting, which names the key, its place and the allowed values.
    """
    (built,) = build_all((shape,), values, base=() if base is None else (base,), ignored=ignored)
    return cast(S, built)


def build_all(
    shapes: Sequence[type[Settings]],
    values: Mapping[str, str],
    *,
    base: Sequence[Settings] = (),
    ignored: AbstractSet[str] = frozenset(),
    places: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Settings, ...]:
    """Like `build`, for several structs that share one file.

    Keys of `ignored` are accepted although no struct has them. `places` says for error messages
    where a key was set.
    """
    check_known(values.keys(), shapes, ignored, places)
    for key, disabled in UNSUPPORTED.items():
        if values.get(key, disabled).lower() != disabled:
            remedy = f"set it to {disabled} or remove it" if disabled else "remove it"
            raise BadSetting(f"{_at(key, places)}{key}={values[key]}: not supported; {remedy}")
    effective = {key for each in shapes if each.has_effect for key in each.__struct_encode_fields__}
    unused = sorted(values.keys() - effective)
    if unused and not base:  # at start
        log.info(LogEvent("settings without effect", keys=", ".join(unused)))
    kinds = {key: kind for shape in shapes for key, kind in _kinds(shape).items()}
    texts = {key: text for each in base for key, text in as_texts(each).items()}
    for key, text in values.items():
        parsed = _as_java_reads(key, text, kinds.get(key))
        if parsed is None:
            raise BadSetting(_bad_value(key, text, shapes, places))
        texts[key] = parsed
    try:
        return tuple(msgspec.convert(texts, shape, strict=False) for shape in shapes)
    except msgspec.ValidationError as error:
        key = str(error).rpartition(" - at `$.")[2].removesuffix("`")
        if key not in texts:
            raise BadSetting(f"bad setting: {error}") from error
        raise BadSetting(_bad_value(key, values.get(key, ""), shapes, places)) from error


def check_known(
    keys: AbstractSet[str],
    shapes: Sequence[type[Settings]],
    ignored: AbstractSet[str] = frozenset(),
    places: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raises BadSetting if no struct has one of the keys; the error suggests the closest match."""
    known = {key for shape in shapes for key in shape.__struct_encode_fields__}
    unknown = sorted(keys - known - ignored - NOT_OF_4_9)
    if unknown:
        problems = (
            f"{_at(key, places)}unknown setting {key}{_hint(key, known)}" for key in unknown
        )
        raise BadSetting("; ".join(problems))


@cache
def _kinds(shape: type[Settings]) -> dict[str, Any]:
    """The type of each setting without its metadata, by key."""
    return {field.encode_name: _plain(field.type) for field in msgspec.structs.fields(shape)}


def _plain(kind: Any) -> Any:
    return _plain(kind.__origin__) if hasattr(kind, "__metadata__") else kind


def _as_java_reads(key: str, text: str, kind: Any) -> str | None:
    """A number or a boolean in a form that msgspec reads; None if the text is not one in Java.

    `Boolean.parseBoolean` reads every other text as false; such a text is rejected here.
    """
    if kind is bool:
        return text if text.lower() in ("true", "false") else None
    if kind is int:
        most = _int_max(key)
        is_number = _INTEGER.fullmatch(text) and -most - 1 <= int(text) <= most
        return str(int(text)) if is_number else None
    return text


def _int_max(key: str) -> int:
    return _LONG_MAX if key in _LONGS else _INT_MAX


def _bad_value(
    key: str, text: str, shapes: Sequence[type[Settings]], places: Mapping[str, str]
) -> str:
    shown = key if key in SECRET else f"{key}={text}"
    return f"{_at(key, places)}{shown}: expected {_allowed(key, shapes)}"


def _allowed(key: str, shapes: Sequence[type[Settings]]) -> str:
    """The values that a setting can have, in words."""
    types = {
        field.encode_name: field.type
        for shape in shapes
        for field in msgspec.inspect.type_info(shape).fields  # type: ignore[attr-defined]
    }
    kind, description = types[key], ""
    while isinstance(kind, msgspec.inspect.Metadata):
        description = description or (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    match kind:
        case msgspec.inspect.EnumType():
            return " or ".join(str(each.value) for each in kind.cls)
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType():
            low = -_int_max(key) - 1 if kind.ge is None else kind.ge
            return f"an integer from {low} to {_int_max(key) if kind.le is None else kind.le}"
        case msgspec.inspect.FloatType():
            return "a number"
        case msgspec.inspect.StrType(pattern=str()):
            return description
    return "a text that is not empty"


def _at(key: str, places: Mapping[str, str]) -> str:
    return f"{places[key]}: " if key in places else ""


def _hint(key: str, known: set[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def as_texts(settings: Settings) -> dict[str, str]:
    """Keys and values as a properties file has them, without those that are None."""
    names = zip(settings.__struct_fields__, settings.__struct_encode_fields__, strict=True)
    return {
        wire: java_text(msgspec.to_builtins(value))
        for name, wire in names
        if (value := getattr(settings, name)) is not None
    }


def as_properties(*settings: Settings) -> str:
    """The text that getNamesrvConfig and getBrokerConfig answer with: all but the secrets."""
    texts = {key: text for each in settings for key, text in as_texts(each).items()}
    for key in SECRET:
        texts.pop(key, None)
    for key in _UNSET_IF_EMPTY:
        if texts.get(key) == "":
            del texts[key]
    return format_properties(texts)
