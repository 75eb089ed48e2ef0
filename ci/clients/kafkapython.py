"""kafka-python 3 with its default settings (an idempotent producer); commands as in adapter.py."""

import sys
import time

import adapter
import kafka
import member
import records
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, OffsetOutOfRangeError


class Client:
    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap

    def version(self):
        return [kafka.__version__]

    def consumer(self, **settings) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, **settings)

    def create(self, topic, partitions):
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_topics([NewTopic(topic, int(partitions), 1)])
        admin.close()

    def write(self, topic, codec, path):
        codec = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, compression_type=codec)
        sent = []
        for r in records.load(path):
            keep = {"partition": r.partition, "timestamp_ms": r.timestamp, "headers": list(r.headers)}
            sent.append(producer.send(topic, r.value, r.key, **keep))
        producer.flush(60)
        answers = [f.get(30) for f in sent]
        producer.close()
        return [f"{a.partition} {a.offset}" for a in answers]

    def read(self, topic, path, *parts):
        wanted = adapter.ranges(parts)
        consumer = self.consumer()
        places = {p: TopicPartition(topic, p) for p in wanted}
        consumer.assign(list(places.values()))
        for p, (first, _) in wanted.items():
            consumer.seek(places[p], first)
        got, until = [], time.monotonic() + 60
        while wanted and time.monotonic() < until:
            for batch in consumer.poll(timeout_ms=200).values():
                for m in batch:
                    if m.partition not in wanted or m.offset >= wanted[m.partition][1]:
                        continue
                    headers = tuple((n, v) for n, v in m.headers)
                    got.append(records.Record(m.partition, m.offset, m.timestamp, m.key, m.value, headers))
                    if m.offset + 1 == wanted[m.partition][1]:
                        del wanted[m.partition]
        consumer.close()
        if wanted:
            raise TimeoutError(f"still waiting for {wanted} after 60 s")
        records.save(path, got)

    def offset_for(self, topic, partition, timestamp):
        consumer, place = self.consumer(), TopicPartition(topic, int(partition))
        found = consumer.offsets_for_times({place: int(timestamp)})[place]
        consumer.close()
        return ["none" if found is None else found.offset]

    def bounds(self, topic, partition):
        consumer, place = self.consumer(), TopicPartition(topic, int(partition))
        first = consumer.beginning_offsets([place])[place]
        end = consumer.end_offsets([place])[place]
        consumer.close()
        return [f"{first} {end}"]

    def out_of_range(self, topic, partition, offset, where):
        consumer = self.consumer(auto_offset_reset=where)
        place = TopicPartition(topic, int(partition))
        consumer.assign([place])
        consumer.seek(place, int(offset))
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                batch = consumer.poll(timeout_ms=300).get(place)
                if batch:
                    return [batch[0].offset]
                # Reset to the end there is nothing to read: the position tells.
                if where == "latest" and consumer.position(place) < int(offset):
                    return [consumer.position(place)]
            raise TimeoutError("neither a record nor an error in 30 s")
        except OffsetOutOfRangeError:
            return ["OFFSET_OUT_OF_RANGE"]
        finally:
            consumer.close()

    def transactional(self, timeout_s):
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id="t", max_block_ms=int(timeout_s) * 1000)
        try:
            producer.init_transactions()
        except KafkaError as why:
            if "Timeout" in type(why).__name__:
                raise
            return [type(why).__name__]
        finally:
            producer.close(timeout=1)
        return ["accepted"]


class Membership(ConsumerRebalanceListener):
    """A member of a group, see member.py."""

    def __init__(self, bootstrap: str, wish: member.Wish):
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=wish.group,
            group_instance_id=wish.instance or None,
            session_timeout_ms=wish.session,
            heartbeat_interval_ms=member.HEARTBEAT_MS,
            metadata_max_age_ms=member.METADATA_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.shown = {}  # and not committed yet
        self.consumer.subscribe(wish.topics, listener=self)

    def run(self) -> None:
        leave = member.leave_at_end_of_stdin()
        while not leave.is_set():
            for batch in self.consumer.poll(timeout_ms=100).values():
                for m in batch:
                    member.say(m.partition, m.offset, m.value.decode())
                    self.shown[m.partition] = m.offset + 1
            self.commit()
        self.consumer.close()

    def commit(self) -> None:
        if not self.shown:
            return
        try:
            self.consumer.commit()
        except KafkaError as why:  # the broker is away, or the group goes on without this member
            print(f"commit: {why!r}", file=sys.stderr)
            return
        for p, offset in self.shown.items():
            member.say("committed", p, offset)
        self.shown.clear()

    def on_partitions_revoked(self, revoked):
        self.commit()
        self.shown.clear()

    def on_partitions_assigned(self, assigned):
        member.say_assigned(assigned)


if __name__ == "__main__":
    if sys.argv[2:3] == ["member"]:
        Membership(sys.argv[1], member.wish(sys.argv[3:])).run()
    else:
        adapter.serve(Client(sys.argv[1]))
