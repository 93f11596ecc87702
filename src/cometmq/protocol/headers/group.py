"""Headers of requests about subscription groups."""

from cometmq.protocol.headers.base import Header


class DeleteGroupHeader(Header):
    """The fields of a DELETE_SUBSCRIPTIONGROUP request."""

    group_name: str
    remove_offset: bool = False
