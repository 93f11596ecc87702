"""Commands about consumer groups: members, offsets, consumer lag."""
