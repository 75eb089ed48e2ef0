"""Races that tests of kafka-python's integration suite lose and that are not the broker's; nothing else is excused.

A pytest plugin (ci/suites/kafka-python). A test that lost one runs again; whatever else it fails with counts at once.
"""

import pytest
from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata

RERUNS = 5

# It expects one poll() to return all that six partitions hold. They are on two nodes (a core is a node), a poll returns
# when the first of them has answered, and the other's records come with the next one, as on any cluster of two nodes.
ONE_POLL = {"test_delete_records": r"assert [1-9][0-9]+ == \(\(\(\(600 - 100\) - 50\) - 40\) - 30\)"}


class ForgottenTopics(Exception):
    """The client's own race: it never asked for the topics that it was told to read.

    KafkaConsumer 3.0.12 asks for the metadata of no topic when it is made. Topics that it is given while that answer is
    on its way, by the constructor too, set need_update, and the answer clears it (kafka/cluster.py; set_topics has a
    TODO on this): they are not asked for until metadata.max.age.ms, 5 minutes, and the consumer reads nothing. A loop
    met it in its 6th run against a broker that answers within a millisecond; Apache Kafka, slower here, not in 400.
    """


forgotten: list[str] = []


def recording(cluster):
    """As ClusterMetadata.metadata_request, and remembers which topics were asked for."""
    request = build_request(cluster)
    cluster.asked = getattr(cluster, "asked", set()) | {topic.name for topic in request.topics or []}
    return request


def closing(consumer, *args, **kwargs):
    """As KafkaConsumer.close, and remembers a race that this consumer has lost."""
    cluster = consumer._cluster
    never = set(cluster._topics) - getattr(cluster, "asked", set())
    if never and not cluster.need_update and not cluster.need_all_topic_metadata:
        forgotten.extend(never)
    return close(consumer, *args, **kwargs)


build_request, close = ClusterMetadata.metadata_request, KafkaConsumer.close
ClusterMetadata.metadata_request, KafkaConsumer.close = recording, closing


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    forgotten.clear()
    outcome = yield
    if outcome.excinfo and forgotten:
        outcome.force_exception(ForgottenTopics(f"never asked for {forgotten}; {outcome.excinfo[1]}"))


def pytest_collection_modifyitems(items):
    for item in items:
        symptoms = ["ForgottenTopics", *filter(None, [ONE_POLL.get(item.originalname)])]
        item.add_marker(pytest.mark.flaky(reruns=RERUNS, only_rerun=symptoms))
