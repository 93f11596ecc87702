"""The clusters that our clients run on: the same tests, on a broker of ours and on Apache's."""

import pytest

from peers.clusters import QUICK, running

KINDS = ["cometmq", "apache"]


@pytest.fixture(scope="package", params=KINDS)
def cluster(request, tmp_path_factory):
    """One broker; Apache's is left out where there is no Java."""
    if request.param == "apache":
        request.getfixturevalue("apache_class_path")
    with running(request.param, tmp_path_factory.mktemp(request.param), QUICK) as started:
        yield started
