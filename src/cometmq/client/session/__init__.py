"""What clients share: connections, routes, heartbeats, and requests from brokers."""
