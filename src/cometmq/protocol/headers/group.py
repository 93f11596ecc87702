"""Subscription groups of a broker."""

from cometmq.protocol.headers.base import Header


class DeleteGroupHeader(Header):
    """DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    remove_offset: bool = False
