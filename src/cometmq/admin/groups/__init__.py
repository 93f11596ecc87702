"""Admin functions for consumer groups: settings, members, offsets, lag."""
