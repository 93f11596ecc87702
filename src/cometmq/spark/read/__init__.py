"""The reading half of `format("rocketmq")`: source, pulls and decoding."""
