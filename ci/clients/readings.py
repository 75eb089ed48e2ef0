"""The members of a group as processes, what they read, and the judgement of it.

A record must be read at least once. It may be read a second time only where a member or the broker was
ended by force, and only when its commit had not been acknowledged.
"""

import os
import subprocess
import threading
import time

from confluent_kafka import KafkaError, KafkaException, Producer

HERE = os.path.dirname(os.path.abspath(__file__))
TICK_S = 0.05


class Wrong(Exception):
    pass


class Readings:
    """What all members of one group read from one topic. Lines come from a thread per member."""

    def __init__(self):
        self.lock = threading.Lock()
        self.read: dict[tuple[int, int], tuple[str, str]] = {}  # first reader and value
        self.latest: dict[int, tuple[int, str]] = {}  # by partition: the latest value, and its reader
        self.committed: dict[int, int] = {}
        self.forced = False  # a second reading is allowed if it was not committed
        self.lenient = False  # or if it was: the client's own way, see stock.py
        self.twice: list[str] = []
        self.allowed = 0

    def take(self, member: str, partition: int, offset: int, value: str) -> None:
        with self.lock:
            place = (partition, offset)
            if place in self.read:
                first, before = self.read[place]
                what = f"partition {partition} offset {offset} by {first}, then by {member}"
                if before != value:
                    self.twice.append(f"{what}, with another value")
                elif self.lenient:
                    self.allowed += 1
                elif offset < self.committed.get(partition, 0):
                    self.twice.append(f"{what}, though {self.committed[partition]} was committed")
                elif not self.forced:
                    self.twice.append(what)
                else:
                    self.allowed += 1
            else:
                self.read[place] = (member, value)
            self.latest[partition] = (int(value), member)

    def commit(self, partition: int, offset: int) -> None:
        with self.lock:
            self.committed[partition] = max(offset, self.committed.get(partition, 0))

    def none_twice(self) -> None:
        with self.lock:
            found, self.twice = self.twice, []
        if found:
            raise Wrong(f"{len(found)} read twice: {'; '.join(found[:3])}")

    def owners(self, after: int) -> dict[int, str]:
        """Who read records younger than the one of this number, by partition."""
        with self.lock:
            return {p: member for p, (value, member) in self.latest.items() if value > after}


class Member:
    """A process that is a member of a group."""

    def __init__(self, name: str, command: list[str], readings: Readings, log: str, leave_signal=None):
        self.name, self.readings, self.leave_signal = name, readings, leave_signal
        self.assignments: list[tuple[str, ...]] = []
        with open(log, "ab") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=HERE
            )
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "assigned":
                self.assignments.append(tuple(rest))
            elif word == "committed":
                self.readings.commit(int(rest[0]), int(rest[1]))
            elif len(rest) == 2:
                self.readings.take(self.name, int(word), int(rest[0]), rest[1])
            # A member that was killed may have said half a line.

    def leave(self) -> None:
        if self.leave_signal:
            self.process.send_signal(self.leave_signal)
        self.process.stdin.close()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired as why:
            self.kill()
            raise Wrong(f"{self.name} did not leave in 30 s") from why
        self.listener.join(5)
        if code:
            raise Wrong(f"{self.name} left with exit code {code}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        # All that it said before counts, commits above all.
        self.listener.join(5)

    def alive(self) -> bool:
        return self.process.poll() is None


class Source(threading.Thread):
    """Writes a numbered record to each partition, twenty times a second, and notes what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int):
        super().__init__(daemon=True)
        self.topic, self.partitions = topic, partitions
        # New partitions are seen soon; linger would only delay.
        # Its log would tell only that the broker goes, which it is made to do.
        settings = {"topic.metadata.refresh.interval.ms": 500, "linger.ms": 0, "log_level": 0}
        self.producer = Producer({"bootstrap.servers": bootstrap} | settings)
        self.number = 0
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.failures: list[str] = []
        self.ended, self.quiet = threading.Event(), False

    def delivered(self, error, message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[(message.partition(), message.offset())] = message.value().decode()

    def once(self) -> None:
        for partition in range(self.partitions):
            self.number += 1
            try:
                self.producer.produce(self.topic, str(self.number), partition=partition, on_delivery=self.delivered)
            except KafkaException as why:
                # A partition so new that the producer has not seen it yet.
                if why.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                    raise
        self.producer.poll(0)

    def run(self) -> None:
        while not self.ended.wait(TICK_S):
            if not self.quiet:
                self.once()

    def end(self) -> None:
        self.ended.set()
        self.join()
        self.flush()

    def flush(self) -> None:
        if self.failures:
            raise Wrong(f"{len(self.failures)} records were refused: {self.failures[0]}")
        left = self.producer.flush(60)
        if left:
            raise Wrong(f"{left} records were not acknowledged in 60 s")


def settled(source: Source, readings: Readings, members: list[Member], patience_s: float) -> dict[int, str]:
    """Waits until these members, each of them and nobody else, read all partitions; gives who reads what."""
    names, until, seen = {m.name for m in members}, time.monotonic() + patience_s, {}
    while time.monotonic() < until:
        mark, soon = source.number, time.monotonic() + 3
        while time.monotonic() < soon and len(readings.owners(mark)) < source.partitions:
            time.sleep(0.05)
        seen = readings.owners(mark)
        if len(seen) == source.partitions and set(seen.values()) == names:
            return seen
        for m in members:
            if not m.alive():
                raise Wrong(f"{m.name} ended, exit code {m.process.returncode}")
        time.sleep(0.2)
    raise Wrong(f"after {patience_s:.0f} s {sorted(names)} do not share {source.partitions} partitions: {seen}")


def all_read(source: Source, readings: Readings, patience_s: float) -> int:
    """Waits until everything that is acknowledged by now was read as it was written."""
    wanted, until = dict(source.acknowledged), time.monotonic() + patience_s
    while True:
        with readings.lock:
            missing = [p for p in wanted if p not in readings.read]
            other = [p for p, v in wanted.items() if p in readings.read and readings.read[p][1] != v]
        if other:
            raise Wrong(f"another value at {other[:3]}")
        if not missing:
            return len(wanted)
        if time.monotonic() > until:
            raise Wrong(f"{len(missing)} of {len(wanted)} acknowledged records were not read: {sorted(missing)[:5]}")
        time.sleep(0.05)
