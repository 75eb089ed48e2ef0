"""Producers and a consumer that run until the broker is gone, and write everything into ledgers."""

import collections
import itertools
import os
import random
import struct
import threading
import time

import wire
from ledger import Ledger, Sent

# Answers that mean "later": no leader yet, leader moved, coordinator loading, storage full, timed out.
RETRIABLE = {3, 5, 6, 7, 14, 19, 20, 56}
IN_FLIGHT = 5  # batches per partition, what an idempotent producer may have
FILLER = os.urandom(1 << 20)
counter = itertools.count(1)


class Pace:
    """Stops the load of one point after so many bytes, so that a run is bounded whatever the speed."""

    def __init__(self, limit: int):
        self.left = limit
        self.lock = threading.Lock()

    def take(self, n: int) -> bool:
        with self.lock:
            self.left -= n
            return self.left > 0


class Later(Exception):
    """The broker asked to try again."""


class Worker(threading.Thread):
    def __init__(self, bootstrap: str):
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.wrong: list[str] = []
        self.ended_by = ""

    def run(self):
        try:
            while True:
                broker = wire.Kafka(self.bootstrap)
                try:
                    return self.work(broker)
                except Later as why:
                    self.ended_by = str(why)
                    time.sleep(0.02)
                finally:
                    broker.close()
        except (OSError, ConnectionError, TimeoutError) as why:
            self.ended_by = f"{type(why).__name__}: {why}"
        except Exception as why:
            self.wrong.append(f"{self.name}: {type(why).__name__}: {why}")


class Writer(Worker):
    """Writes to the partitions of one topic, up to five batches in flight in each."""

    def __init__(self, bootstrap: str, ledgers: list[Ledger], producer, sizes, pace: Pace, seed: int):
        super().__init__(bootstrap)
        self.ledgers = {l.partition: l for l in ledgers}
        self.topic = ledgers[0].topic
        self.producer = producer  # (id, epoch), or None for a plain one
        self.sizes, self.pace, self.draw = sizes, pace, random.Random(seed)

    def work(self, broker: wire.Kafka):
        leaders = broker.leaders(self.topic)
        flights: dict[int, collections.deque] = collections.defaultdict(collections.deque)
        # What an earlier life left unanswered goes first, in order; only idempotent producers repeat.
        again = {p: collections.deque(l.waiting) for p, l in self.ledgers.items()}
        while True:
            sent = 0
            for p, ledger in self.ledgers.items():
                flight = flights[leaders[p]]
                while sum(1 for q, _ in flight if q == p) < IN_FLIGHT:
                    batch = again[p].popleft() if again[p] else self.make(ledger)
                    if batch is None:
                        break
                    connection = broker.node(leaders[p])
                    connection.send(wire.PRODUCE, 7, wire.produce_body(self.topic, p, batch.data))
                    flight.append((p, batch))
                    sent += 1
            if not any(flights.values()):
                return
            for node, flight in flights.items():
                if flight:
                    self.answer(*wire.produce_answer(broker.node(node).receive()), *flight.popleft())

    def make(self, ledger: Ledger) -> Sent | None:
        size = self.draw.choice(self.sizes)
        if not self.pace.take(size):
            return None
        count = self.draw.randrange(1, 8) if size < 10_000 else self.draw.randrange(1, 3)
        start = self.draw.randrange(len(FILLER) - size)
        values = [struct.pack(">Q", next(counter)) + FILLER[start : start + size // count] for _ in range(count)]
        pid, epoch = self.producer or (-1, -1)
        sequence = ledger.next_sequence if self.producer else -1
        data = wire.batch(values, int(time.time() * 1000), pid, epoch, sequence)
        batch = Sent(struct.unpack_from(">I", data, 17)[0], count, data, sequence)
        ledger.sent[batch.crc] = count
        if self.producer:
            ledger.next_sequence += count
            ledger.waiting.append(batch)
        return batch

    def answer(self, code: int, base: int, partition: int, batch: Sent):
        ledger = self.ledgers[partition]
        if code:
            name = f"{ledger}: error {code} for the batch with sequence {batch.sequence}"
            if code in RETRIABLE:
                raise Later(name)  # starts over, which repeats what is waiting
            raise ValueError(name)
        if self.producer:
            ledger.waiting.remove(batch)
        wrong = ledger.acknowledge(batch, base)
        if wrong:
            self.wrong.append(wrong)


class Reader(Worker):
    """Reads every partition from where it was, and notes what it is shown."""

    def __init__(self, bootstrap: str, ledgers: list[Ledger]):
        super().__init__(bootstrap)
        self.ledgers = ledgers
        self.stop = False

    def work(self, broker: wire.Kafka):
        leaders = {t: broker.leaders(t) for t in {l.topic for l in self.ledgers}}
        while not self.stop:
            quiet = True
            for ledger in self.ledgers:
                node = broker.node(leaders[ledger.topic][ledger.partition])
                code, _, data = wire.fetch(node, ledger.topic, ledger.partition, ledger.shown_end)
                if code:
                    raise Later(f"{ledger}: error {code} at offset {ledger.shown_end}")
                for b in wire.batches(data):
                    ledger.shown[b.base] = b.crc
                    ledger.shown_end = b.base + b.count
                    quiet = False
            if quiet:
                time.sleep(0.002)


def whole_log(broker: wire.Kafka, ledger: Ledger, leaders: dict[int, int]):
    """First offset, end offset, and every batch of the partition."""
    node = broker.node(leaders[ledger.partition])
    first = broker.list_offset(node, ledger.topic, ledger.partition, wire.EARLIEST)
    end = broker.list_offset(node, ledger.topic, ledger.partition, wire.LATEST)
    found, at = [], first
    while at < end:
        code, _, data = wire.fetch(node, ledger.topic, ledger.partition, at, max_bytes=8 << 20)
        if code:
            raise wire.KafkaError(code, f"reading {ledger} at {at} of {end}")
        some = wire.batches(data)
        if not some:
            raise ValueError(f"{ledger}: no batch in the answer at {at} of {end}")
        found += some
        at = some[-1].base + some[-1].count
    return first, end, found
