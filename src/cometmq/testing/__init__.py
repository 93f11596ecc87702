"""What tests of services on cometmq, and our own, use in place of the real world."""
