"""What kafka-python does while record.py listens. Arguments: the recorder's port, and versions of brokers to act for.

record.py --listen PORT --broker BROKER --client kafka-python-3 -- python3 kafka_python.py PORT
"""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic

BROKER = f"127.0.0.1:{sys.argv[1]}"


def attempt(what, call):
    """Not every step exists for every version of the client; say so and go on."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        print(f"{what}: {type(error).__name__} {error}", file=sys.stderr)


def session(version):
    name = "golden-python-" + ("auto" if version is None else "-".join(map(str, version)))
    common = {"bootstrap_servers": BROKER, "api_version": version}
    admin = KafkaAdminClient(**common)
    topic = NewTopic(name, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "3600000"})
    attempt("create", lambda: admin.create_topics([topic]))
    attempt("create again", lambda: admin.create_topics([topic]))
    attempt("partitions", lambda: admin.create_partitions({name: NewPartitions(4)}))
    resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})
    attempt("describe configs", lambda: admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": None})]))
    attempt("alter configs", lambda: admin.alter_configs([resource]))
    attempt("cluster", admin.describe_cluster)
    attempt("topics", lambda: admin.describe_topics([name]))
    time.sleep(1)

    idempotent = version is None or version >= (0, 11)
    producer = KafkaProducer(**common, compression_type="gzip", enable_idempotence=idempotent)
    headers = [("trace", b"1"), ("trace", b"2")] if idempotent else None
    for number in range(10):
        producer.send(name, key=b"key", value=b"value %d" % number, partition=number % 4, headers=headers)
    attempt("flush", lambda: producer.flush(10))
    producer.close()

    consumer = KafkaConsumer(**common, group_id=f"{name}-group", auto_offset_reset="earliest", consumer_timeout_ms=3000)
    partitions = [TopicPartition(name, number) for number in range(4)]
    consumer.assign(partitions)
    attempt("beginning", lambda: consumer.beginning_offsets(partitions))
    attempt("end", lambda: consumer.end_offsets(partitions))
    attempt("times", lambda: consumer.offsets_for_times({partition: 1 for partition in partitions}))
    print(name, "consumed", sum(1 for _ in consumer))
    consumer.close()
    attempt("delete", lambda: admin.delete_topics([name]))
    attempt("delete again", lambda: admin.delete_topics([name]))
    admin.close()


for text in sys.argv[2:] or ["auto"]:
    session(None if text == "auto" else tuple(map(int, text.split("."))))
