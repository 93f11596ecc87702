"""The push consumer: messages are delivered to a listener."""
