"""The writing half of `format("rocketmq")`: the sink and its exactly-once delivery."""
