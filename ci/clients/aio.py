"""aiokafka with its default settings; commands as in adapter.py, each run to its end on one event loop."""

import asyncio
import sys
import time

import adapter
import aiokafka
import member
import records
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, OffsetOutOfRangeError


class Client:
    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap
        self.loop = asyncio.new_event_loop()

    def __getattr__(self, command):
        act = getattr(type(self), f"_{command}")
        return lambda *arguments: self.loop.run_until_complete(act(self, *arguments))

    def version(self):
        return [aiokafka.__version__]

    def consumer(self, **settings) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, **settings)

    async def _create(self, topic, partitions):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, int(partitions), 1)])
        finally:
            await admin.close()

    async def _write(self, topic, codec, path):
        codec = None if codec == "none" else codec
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, compression_type=codec) as producer:
            sent = []
            for r in records.load(path):
                keep = {"partition": r.partition, "timestamp_ms": r.timestamp, "headers": list(r.headers)}
                sent.append(await producer.send(topic, r.value, r.key, **keep))
            answers = await asyncio.wait_for(asyncio.gather(*sent), 60)
        return [f"{a.partition} {a.offset}" for a in answers]

    async def _read(self, topic, path, *parts):
        wanted = adapter.ranges(parts)
        places = {p: TopicPartition(topic, p) for p in wanted}
        got, until = [], time.monotonic() + 60
        async with self.consumer() as consumer:
            consumer.assign(list(places.values()))
            for p, (first, _) in wanted.items():
                consumer.seek(places[p], first)
            while wanted and time.monotonic() < until:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    for m in batch:
                        if m.partition not in wanted or m.offset >= wanted[m.partition][1]:
                            continue
                        got.append(
                            records.Record(m.partition, m.offset, m.timestamp, m.key, m.value, tuple(m.headers))
                        )
                        if m.offset + 1 == wanted[m.partition][1]:
                            del wanted[m.partition]
        if wanted:
            raise TimeoutError(f"still waiting for {wanted} after 60 s")
        records.save(path, got)

    async def _offset_for(self, topic, partition, timestamp):
        place = TopicPartition(topic, int(partition))
        async with self.consumer() as consumer:
            found = (await consumer.offsets_for_times({place: int(timestamp)}))[place]
        return ["none" if found is None else found.offset]

    async def _bounds(self, topic, partition):
        place = TopicPartition(topic, int(partition))
        async with self.consumer() as consumer:
            first = (await consumer.beginning_offsets([place]))[place]
            end = (await consumer.end_offsets([place]))[place]
        return [f"{first} {end}"]

    async def _out_of_range(self, topic, partition, offset, where):
        place = TopicPartition(topic, int(partition))
        async with self.consumer(auto_offset_reset=where) as consumer:
            consumer.assign([place])
            consumer.seek(place, int(offset))
            until = time.monotonic() + 30
            try:
                while time.monotonic() < until:
                    batch = (await consumer.getmany(timeout_ms=300)).get(place)
                    if batch:
                        return [batch[0].offset]
                    # Reset to the end there is nothing to read: the position tells.
                    if where == "latest" and await consumer.position(place) < int(offset):
                        return [await consumer.position(place)]
            except OffsetOutOfRangeError:
                return ["OFFSET_OUT_OF_RANGE"]
        raise TimeoutError("neither a record nor an error in 30 s")

    async def _transactional(self, timeout_s):
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id="t")
        try:
            await asyncio.wait_for(producer.start(), float(timeout_s))
        except asyncio.TimeoutError:
            raise
        except KafkaError as why:
            return [type(why).__name__]
        finally:
            await producer.stop()
        return ["accepted"]


class Membership(ConsumerRebalanceListener):
    """A member of a group, see member.py. A rebalance runs beside the reading, so both commit under a lock."""

    def __init__(self, bootstrap: str, wish: member.Wish):
        self.bootstrap, self.wish, self.lock = bootstrap, wish, asyncio.Lock()
        self.shown = {}  # and not committed yet: where to go on
        self.consumer = None

    async def run(self) -> None:
        wish = self.wish
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=wish.group,
            group_instance_id=wish.instance or None,
            session_timeout_ms=wish.session,
            heartbeat_interval_ms=member.HEARTBEAT_MS,
            metadata_max_age_ms=member.METADATA_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        leave = member.leave_at_end_of_stdin()
        self.consumer.subscribe(wish.topics, listener=self)
        await self.consumer.start()
        while not leave.is_set():
            # Not under the lock: during a rebalance it waits for the end of that, which waits for the lock.
            for place, batch in (await self.consumer.getmany(timeout_ms=100)).items():
                for m in batch:
                    member.say(m.partition, m.offset, m.value.decode())
                self.shown[place] = batch[-1].offset + 1
            async with self.lock:
                await self.commit()
        await self.consumer.stop()

    async def commit(self) -> None:
        shown, self.shown = self.shown, {}
        if not shown:
            return
        try:
            await self.consumer.commit(shown)
        except KafkaError as why:  # the broker is away, or the group goes on without this member
            print(f"commit: {why!r}", file=sys.stderr)
            self.shown = shown | self.shown
            return
        for place, offset in shown.items():
            member.say("committed", place.partition, offset)

    async def on_partitions_revoked(self, revoked):
        async with self.lock:
            await self.commit()
            self.shown.clear()

    async def on_partitions_assigned(self, assigned):
        member.say_assigned(assigned)


if __name__ == "__main__":
    if sys.argv[2:3] == ["member"]:
        asyncio.run(Membership(sys.argv[1], member.wish(sys.argv[3:])).run())
    else:
        adapter.serve(Client(sys.argv[1]))
