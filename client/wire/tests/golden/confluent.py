"""What confluent-kafka does while record.py listens. Argument: the recorder's port.

record.py --listen PORT --broker BROKER --client confluent-kafka-2.16 -- python3 confluent.py PORT
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

BROKER = {"bootstrap.servers": f"127.0.0.1:{sys.argv[1]}"}
TOPIC = "golden-confluent"


def outcome(futures):
    """Waits for an admin call; errors are answers too, and are what some of the steps are there for."""
    for key, future in futures.items():
        try:
            future.result(10)
        except KafkaException as error:
            print(f"{key}: {error}", file=sys.stderr)


admin = AdminClient(BROKER)
outcome(admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1, config={"retention.ms": "3600000"})]))
outcome(admin.create_topics([NewTopic(TOPIC, num_partitions=2, replication_factor=1)]))
outcome(admin.create_partitions([NewPartitions(TOPIC, 4)]))
outcome(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC)]))
admin.list_topics(timeout=10)

for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    for idempotent in (False, True):
        producer = Producer(BROKER | {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20})
        for number in range(10):
            headers = [("trace", b"1"), ("trace", b"2"), ("empty", None)]
            producer.produce(TOPIC, key=b"key", value=b"value %d" % number, partition=number % 4, headers=headers)
        producer.produce(TOPIC, key=b"null", value=None, partition=0)
        producer.flush(10)

consumer = Consumer(BROKER | {"group.id": f"{TOPIC}-group", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
partitions = [TopicPartition(TOPIC, number, 0) for number in range(4)]
consumer.offsets_for_times([TopicPartition(TOPIC, number, 1) for number in range(4)], timeout=10)
for partition in partitions:
    consumer.get_watermark_offsets(partition, timeout=10)
consumer.assign(partitions)
read = 0
while read < 10 * 11 and (message := consumer.poll(10)) is not None:
    read += message.error() is None
print(TOPIC, "consumed", read)
consumer.close()
outcome(admin.delete_topics([TOPIC]))
outcome(admin.delete_topics([TOPIC]))
