"""The quick start, played in a terminal."""
