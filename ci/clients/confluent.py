"""confluent-kafka (librdkafka) with its default settings; commands as in adapter.py."""

import sys
import time

import adapter
import confluent_kafka
import member
import records
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

# A consumer must name a group, though it joins none when partitions are assigned.
GROUP = "unused"


class Client:
    def __init__(self, bootstrap: str):
        self.base = {"bootstrap.servers": bootstrap}

    def version(self):
        return [f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"]

    def consumer(self, **settings) -> Consumer:
        return Consumer(self.base | {"group.id": GROUP, "enable.auto.commit": False} | settings)

    def create(self, topic, partitions):
        admin = AdminClient(self.base)
        for result in admin.create_topics([NewTopic(topic, int(partitions), 1)]).values():
            result.result(30)

    def write(self, topic, codec, path):
        producer = Producer(self.base | {"compression.type": codec})
        acknowledged, failures = [], []

        def delivered(error, message):
            if error is not None:
                failures.append(error)
            else:
                acknowledged.append((message.partition(), message.offset()))

        for r in records.load(path):
            keep = {"partition": r.partition, "timestamp": r.timestamp, "on_delivery": delivered}
            while True:
                try:
                    producer.produce(topic, r.value, r.key, headers=list(r.headers), **keep)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        if producer.flush(60) or failures:
            raise KafkaException(failures[0] if failures else KafkaError(KafkaError._TIMED_OUT))
        return [f"{p} {o}" for p, o in acknowledged]

    def read(self, topic, path, *parts):
        wanted = adapter.ranges(parts)
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, p, first) for p, (first, _) in wanted.items()])
        got, until = [], time.monotonic() + 60
        while wanted and time.monotonic() < until:
            for m in consumer.consume(500, 0.2):
                if m.error():
                    raise KafkaException(m.error())
                if m.partition() not in wanted or m.offset() >= wanted[m.partition()][1]:
                    continue
                headers = tuple(m.headers() or ())
                time_ms = m.timestamp()[1]
                got.append(records.Record(m.partition(), m.offset(), time_ms, m.key(), m.value(), headers))
                if m.offset() + 1 == wanted[m.partition()][1]:
                    del wanted[m.partition()]
        consumer.close()
        if wanted:
            raise TimeoutError(f"still waiting for {wanted} after 60 s")
        records.save(path, got)

    def offset_for(self, topic, partition, timestamp):
        consumer = self.consumer()
        asked = TopicPartition(topic, int(partition), int(timestamp))
        (found,) = consumer.offsets_for_times([asked], timeout=30)
        consumer.close()
        if found.error:
            raise KafkaException(found.error)
        return ["none" if found.offset < 0 else found.offset]

    def bounds(self, topic, partition):
        consumer = self.consumer()
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, int(partition)), timeout=30)
        consumer.close()
        return [f"{first} {end}"]

    def out_of_range(self, topic, partition, offset, where):
        reset = {"none": "error"}.get(where, where)
        consumer = self.consumer(**{"auto.offset.reset": reset, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, int(partition), int(offset))])
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                m = consumer.poll(0.5)
                if m is None:
                    continue
                if m.error() is None or m.error().code() == KafkaError._PARTITION_EOF:
                    return [m.offset()]
                if m.error().code() == KafkaError._AUTO_OFFSET_RESET:
                    return ["OFFSET_OUT_OF_RANGE"]
                raise KafkaException(m.error())
            raise TimeoutError("neither a record nor an error in 30 s")
        finally:
            consumer.close()

    def transactional(self, timeout_s):
        producer = Producer(self.base | {"transactional.id": "t"})
        try:
            producer.init_transactions(float(timeout_s))
        except KafkaException as why:
            error = why.args[0]
            if error.code() == KafkaError._TIMED_OUT:
                raise
            return [f"{error.name()} fatal={error.fatal()}"]
        return ["accepted"]


def join(bootstrap: str, wish: member.Wish) -> None:
    """A member of a group, see member.py."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": wish.group,
        "session.timeout.ms": wish.session,
        "heartbeat.interval.ms": member.HEARTBEAT_MS,
        "topic.metadata.refresh.interval.ms": member.METADATA_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if wish.assignor:
        settings["partition.assignment.strategy"] = wish.assignor
    if wish.instance:
        settings["group.instance.id"] = wish.instance
    # What it has, and what it has shown and not committed yet.
    held, shown = set(), {}

    def commit(consumer):
        if not shown:
            return
        offsets = [TopicPartition(t, p, offset) for (t, p), offset in shown.items()]
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as why:  # the broker is away, or the group goes on without this member
            print(f"commit: {why}", file=sys.stderr)
            return
        for (_, p), offset in shown.items():
            member.say("committed", p, offset)
        shown.clear()

    def assigned(_, places):
        held.update((place.topic, place.partition) for place in places)
        member.say_assigned(held)

    def revoked(consumer, places):
        commit(consumer)
        lost(consumer, places)

    def lost(_, places):
        for place in places:
            held.discard((place.topic, place.partition))
            shown.pop((place.topic, place.partition), None)

    leave = member.leave_at_end_of_stdin()
    consumer = Consumer(settings)
    consumer.subscribe(wish.topics, on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not leave.is_set():
        for m in consumer.consume(100, 0.1):
            if m.error():
                print(m.error(), file=sys.stderr)
                continue
            member.say(m.partition(), m.offset(), m.value().decode())
            shown[m.topic(), m.partition()] = m.offset() + 1
        commit(consumer)
    consumer.close()


if __name__ == "__main__":
    if sys.argv[2:3] == ["member"]:
        join(sys.argv[1], member.wish(sys.argv[3:]))
    else:
        adapter.serve(Client(sys.argv[1]))
