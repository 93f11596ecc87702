"""Which names pass, and namespaces."""

import pytest

from cometmq.errors import BadName
from cometmq.protocol import names
from protocol.golden import each


def passes(check, name):
    try:
        return check(name) == name
    except BadName:
        return False


@each("ids", "name/")
def test_names(entry):
    name, value = entry["value"]["name"], entry["value"]
    assert passes(names.check_topic, name) is value["clientTopicOk"] is value["brokerTopicOk"]
    assert passes(names.check_group, name) is value["clientGroupOk"]
    assert names.is_system_topic(name) is value["systemTopic"]
    assert names.is_system_group(name) is value["systemGroup"]
    assert (name in names.CLOSED_TOPICS) is value["sendForbidden"]


@each("ids", "namespace/")
def test_namespaces(entry):
    value = entry["value"]
    name, namespace = value["resource"], value["namespace"]
    assert names.with_namespace(namespace, name) == value["wrapped"]
    assert names.without_namespace(name) == value["without"]
    assert names.without_namespace(name, namespace) == value["withoutThis"]
    assert names.namespace_of(name) == value["namespaceOf"]


@pytest.mark.parametrize("group", sorted(names.BUILT_IN_GROUPS - {"CID_RMQ_SYS_TRANS"}))
def test_built_in_groups_take_a_namespace(group):
    assert names.with_namespace("ns", group) == f"ns%{group}"


@each("ids", "special_topics/")
def test_topics_of_a_group(entry):
    value = entry["value"]
    assert names.retry_topic(value["group"]) == value["retry"]
    assert names.dlq_topic(value["group"]) == value["dlq"]
    assert names.reply_topic(value["group"]) == value["reply"]


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b", ".", "a\n", "٣", "a\u200b"])
def test_no_path_is_a_name(name):
    with pytest.raises(BadName):
        names.check_topic(name)
    with pytest.raises(BadName):
        names.check_group(name)
