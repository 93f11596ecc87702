"""The broker's state: topics, groups, offsets, clients and queue locks."""
