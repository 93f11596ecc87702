"""What every test may use."""

import resource

pytest_plugins = ["peers.fixtures"]

# Tests with a thousand sockets, in a shell whose soft limit is the usual 1024.
_, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))
