"""The clusters that the client tests run on, one a test file."""

import pytest

from peers.clusters import CHOSEN, QUICK, running


@pytest.fixture(scope="module", params=CHOSEN)
def cluster(request, apache_class_path, tmp_path_factory):
    """One broker, or what COMETMQ_COMPAT_BROKER says."""
    with running(request.param, tmp_path_factory.mktemp(request.param), QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def observed(request, cluster):
    """What the stories named in the test file told on the cluster."""
    return cluster.observe(*request.module.STORIES)
