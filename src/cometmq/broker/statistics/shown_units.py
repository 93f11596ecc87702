"""A queue's units as an administrator is shown them, with what their extensions say."""

from base64 import b64encode

from cometmq.protocol.bodies.stats import QueueUnit
from cometmq.protocol.java.fastjson import Body, dumps
from cometmq.protocol.limits import Int32, Int64
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.store.queue.queue_extension import HEAD_SIZE, is_address
from cometmq.store.queue.results import Unit

_LINE = 8  # bytes of a bit map


class _ShownExtension(Body):
    """In the format of Apache RocketMQ, with bits in base 64."""

    filter_bit_map: str | None = None
    msg_store_time: Int64 = 0
    size: Int32 = 0
    tags_code: Int64 = 0


def shown(unit: Unit, passes: bool) -> QueueUnit:
    """One unit. Its code is that of the message's tags, and the address only if that is lost."""
    code = unit.code
    extension = code if isinstance(code, ExtendedCode) else None
    return QueueUnit(
        physic_offset=unit.physical_offset,
        physic_size=unit.size,
        tags_code=int(code),
        evaluated=passes,
        extend_data_json=_extension_text(extension) if extension is not None else None,
        bit_map=_bits_text(extension.bits) if extension is not None and extension.bits else None,
        message=f"Cq extend not exist!addr: {code}" if is_address(code) else None,
    )


def _extension_text(code: ExtendedCode) -> str:
    bits = code.bits
    extension = _ShownExtension(
        filter_bit_map=b64encode(bits).decode() if bits else None,
        msg_store_time=code.stored_ms,
        size=HEAD_SIZE + len(bits),
        tags_code=int(code),
    )
    return dumps(extension).decode()


def _bits_text(bits: bytes) -> str:
    """The last bit first, on lines of 64 of which the first may be shorter."""
    first = len(bits) % _LINE
    starts = ([0] if first else []) + list(range(first, len(bits), _LINE))
    high_first = bits[::-1]
    lines = (high_first[at : first if at < first else at + _LINE] for at in starts)
    return "".join("".join(f"{byte:08b}" for byte in line) + "\n" for line in lines)
