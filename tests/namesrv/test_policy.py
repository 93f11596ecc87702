"""The policy of every row: permission and writes."""

from cometmq.remoting.dispatch import Routes

NEEDS = {
    "open": {101, 105, 106, 206, 219, 224, 304, 311, 312, 313},
    "broker": {103, 104, 322},
    "admin": {100, 102, 205, 216, 318, 319, 327},
}
WRITES = {100, 102, 103, 104, 205, 216, 318, 322, 327}


def test_every_row_has_its_policy(desk):
    routes: Routes = desk.routes
    found: dict[str, set[int]] = {}
    for code, route in routes.items():
        found.setdefault(str(route.access), set()).add(int(code))
    assert found == NEEDS
    assert {code for code, route in routes.items() if route.writes} == WRITES
    assert all(route.on_slave is None and route.vip_port for route in routes.values())
