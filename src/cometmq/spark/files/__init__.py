"""format('rocketmq-store'): store files as tables."""
