"""What every test may use."""

pytest_plugins = ["peers.fixtures"]
