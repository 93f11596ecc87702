"""CPU microseconds of the codecs, for the frames of a send and its reply."""

import msgspec
from measure import cpu_us, machine, show

from cometmq.protocol.command import Codec, Command
from cometmq.protocol.frame import FrameDecoder, encode_frame, reply_head
from cometmq.protocol.headers.base import Header, read_header, write_header
from cometmq.protocol.headers.pull import PullReplyHeader
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.records.message import StoredMessage, pack_record, unpack_record

HEADER = SendHeaderV2(
    producer_group="producer_group",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=2,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="KEYS\x01key123\x02UNIQ_KEY\x017F00000100002A139A5512345678ABCD\x02TAGS\x01TagA",
    reconsume_times=0,
    max_reconsume_times=0,
)
REPLY = SendReplyHeader(msg_id="7F00000100002A9F00000000000001C8", queue_id=2, queue_offset=123456)
PULLED = PullReplyHeader(
    suggest_which_broker_id=0, next_begin_offset=64, min_offset=0, max_offset=64
)
RECORD = StoredMessage(topic="TopicTest", body=b"x" * 128, properties_text=HEADER.properties or "")


FRAMES_A_READ = 16
REQUESTS = {codec: Command(code=310, opaque=12345, codec=codec) for codec in Codec}


def send(codec: Codec) -> Command:
    return Command(
        code=310, opaque=12345, language="JAVA", version=407, fields=write_header(HEADER),
        body=b"x" * 128, codec=codec,
    )  # fmt: skip


def decode(frames: bytes, decoder: FrameDecoder) -> None:
    """As a server does with one read: bytes to commands, fields to typed headers."""
    for command in decoder.feed(frames):
        read_header(command, SendHeaderV2)


def reply(codec: Codec, header: Header) -> bytes:
    return reply_head(REQUESTS[codec], 0, write_header(header), None, 0)


def main() -> None:
    print(f"wire, {machine()}")
    for codec in Codec:
        frame = encode_frame(send(codec))
        name = codec.name.lower()
        frames, decoder = frame * FRAMES_A_READ, FrameDecoder()
        read = cpu_us(lambda f=frames, d=decoder: decode(f, d), count=3000) / FRAMES_A_READ
        write = cpu_us(lambda codec=codec: reply(codec, REPLY))
        show(f"{name}: SEND_V2 frame to typed header", read, "us")
        show(f"{name}: send reply to frame", write, "us")
        show(f"{name}: both, a broker's share of a send", read + write, "us", "aim 3 (JSON)")
        show(
            f"{name}: SEND_V2 request to frame", cpu_us(lambda c=codec: encode_frame(send(c))), "us"
        )
    show("pull reply head", cpu_us(lambda: reply(Codec.JSON, PULLED)), "us")
    text = bytes(send(Codec.JSON).fields)
    alone = msgspec.json.Decoder(SendHeaderV2, strict=False).decode
    show("SEND_V2 fields to typed header, msgspec alone", cpu_us(lambda: alone(text)), "us")
    record = pack_record(RECORD)
    show("record of 128 bytes: pack", cpu_us(lambda: pack_record(RECORD)), "us")
    show("record of 128 bytes: unpack", cpu_us(lambda: unpack_record(record)), "us")


if __name__ == "__main__":
    main()
