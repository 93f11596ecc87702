"""The demonstration: the quick start, played in a terminal."""
