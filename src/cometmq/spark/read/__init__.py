"""The reading half of format('rocketmq'): sources, pulls and decoding."""
