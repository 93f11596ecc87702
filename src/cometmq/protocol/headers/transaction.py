"""Headers of requests that end or check a transaction."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class EndTransactionHeader(Header, kw_only=True, rename=camel(broker_name="bname")):
    """The fields of a END_TRANSACTION request."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
    broker_name: str | None = None


class CheckTransactionHeader(Header, rename=camel(broker_name="bname")):
    """The fields of a CHECK_TRANSACTION_STATE request."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = None


class ResumeCheckHeader(Header):
    """The fields of a RESUME_CHECK_HALF_MESSAGE request."""

    msg_id: str | None = None
