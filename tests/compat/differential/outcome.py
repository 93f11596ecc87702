"""What of an answer must be the same on both servers."""

import re
import string
from typing import Any

from cometmq.errors import Malformed
from cometmq.protocol.records.message import unpack_records
from compat.differential.wire import Answer
from compat.differential.world import json_of, shown

# Values that differ by nature: places in the log, ids made of them, figures of the machine.
_PLACES = {
    "msgId", "indexLastUpdatePhyoffset", "physicOffset", "transactionId", "version", "delayTime",
    "consumeTps",
}  # fmt: skip
_ODD_NAMES = {"null", "true", "{}"}
_TIME = re.compile(r"(?<!\d)1[6-9]\d{11}(?!\d)")
_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_NUMBER = re.compile(r"_\d{5}(?!\d)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}")
_PATH = re.compile(r"(?<=commitLogDiskRatio_)/.*")
_ID = re.compile(r"7F000001[0-9A-F]{24}")


def comparable(answer: Answer, *, values: bool = True, any_offset: bool = False) -> dict[str, Any]:
    """The answer with what differs by nature replaced.

    Args:
        values: False to compare kinds only, and of tables only what all cases share.
        any_offset: True if the message went to a queue that cases share.
    """
    if answer.kind != "answer":
        return {"kind": answer.kind}
    return {
        "kind": answer.kind,
        "code": answer.code,
        # A remark of a success is for nobody: only refusals must give a reason.
        "remark": answer.code == 0 or bool(answer.remark),
        "fields": {
            name: "any"
            if name in _PLACES or (any_offset and name in ("queueOffset", "queueId"))
            else _plain(value)
            if values
            else kind_of(value)
            for name, value in answer.fields.items()
        },
        "body": _body(answer.body, values),
    }


def kind_of(value: Any) -> str:
    """Number, boolean or text, also of a number in a text."""
    if isinstance(value, bool) or value in ("true", "false"):
        return "boolean"
    if isinstance(value, int | float) or re.fullmatch(r"-?\d+(\.\d+)?", str(value)):
        return "number"
    return "null" if value is None else "text"


def _body(body: bytes, values: bool) -> Any:
    if not body:
        return None
    try:
        return [shown(each) for each in unpack_records(body)]
    except Malformed:
        pass
    found = json_of(body)
    if found is None:
        return "text" if not values else _plain(body.decode(errors="replace"))
    return normal(found, values=values)


def normal(value: Any, *, values: bool = True) -> Any:
    """JSON without what differs by nature."""
    if isinstance(value, dict):
        return {
            _plain(key): "any" if key in _PLACES else normal(item, values=values)
            for key, item in value.items()
            if values or _is_common(key)
        }
    if isinstance(value, list | tuple):
        if not values:
            value = [each for each in value if "_00000" in str(each)]
        return sorted((normal(item, values=values) for item in value), key=repr)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return _plain(value) if values else kind_of(value)
    return value if values else kind_of(value)


def _is_common(key: str) -> bool:
    """Not of one case alone, nor a name that only Apache accepts."""
    found = _NUMBER.search(key)
    if found is not None:
        return found[0] == "_00000"
    return key[:1] in {*"%_{", *string.ascii_letters} and key not in _ODD_NAMES


def _plain(value: Any) -> Any:
    if isinstance(value, int):
        return "TIME" if _TIME.fullmatch(str(value)) else value
    if not isinstance(value, str):
        return value
    text = _TIME.sub("TIME", value)
    text = _PATH.sub("PATH", _DATE.sub("DATE", _ID.sub("ID", text)))
    return _NUMBER.sub("", _ADDRESS.sub("ADDRESS", text))


def difference(apache: Any, ours: Any, at: str = "") -> list[str]:
    """Where two comparable values differ, one line each."""
    if isinstance(apache, dict) and isinstance(ours, dict):
        lines = []
        for key in sorted(apache.keys() | ours.keys(), key=str):
            if key not in ours:
                lines.append(f"{at}.{key}: Apache {_short(apache[key])}, ours has none")
            elif key not in apache:
                lines.append(f"{at}.{key}: Apache has none, ours {_short(ours[key])}")
            else:
                lines += difference(apache[key], ours[key], f"{at}.{key}")
        return lines
    if isinstance(apache, list) and isinstance(ours, list) and len(apache) == len(ours):
        return [
            line
            for number, (one, other) in enumerate(zip(apache, ours, strict=True))
            for line in difference(one, other, f"{at}[{number}]")
        ]
    if apache == ours and type(apache) is type(ours):
        return []
    return [f"{at}: Apache {_short(apache)}, ours {_short(ours)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else text[:200] + "..."
