"""What all consumers use: rebalancing, offsets, subscriptions and pull requests."""
