"""Groups that commit while their broker is killed again and again: no acknowledged commit may be lost or run ahead.

Each group commits 1, 2, 3 and so on for one partition, one commit at a time, on a connection of its own. After each kill
and start what it has committed must be the last acknowledged number, or the one that was on its way. Between the two
`rillctl log verify` must find nothing in the data directory, whose offsets are being compacted all the time.
"""

import argparse
import os
import random
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from brokers import Rillway  # noqa: E402
from verify import Hangs, Verifier  # noqa: E402
from wire import CREATE_TOPICS, Connection, string  # noqa: E402

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
TOPIC = "t"
PATIENCE_S = 30


class Group(threading.Thread):
    def __init__(self, number: int, port: int):
        super().__init__(daemon=True)
        self.group, self.port = f"g{number}", port
        self.tried = self.acknowledged = 0
        self.paused, self.idle, self.over = threading.Event(), threading.Event(), False

    def run(self) -> None:
        while not self.over:
            if self.paused.is_set():
                self.idle.set()
                time.sleep(0.01)
                continue
            try:
                self.commit_on(Connection("127.0.0.1", self.port, 5))
            except (OSError, ValueError, struct.error):
                time.sleep(0.02)

    def commit_on(self, connection: Connection) -> None:
        while not self.paused.is_set():
            self.tried += 1
            partition = struct.pack(">iqi", 0, self.tried, -1) + string("x" * random.randrange(200))
            body = string(self.group) + struct.pack(">i", -1) + string("") + struct.pack(">i", 1)
            body += string(TOPIC) + struct.pack(">i", 1) + partition
            code = last_code(connection.ask(OFFSET_COMMIT, 6, body))
            if code != 0:
                raise ValueError(f"error {code}")
            self.acknowledged = self.tried

    def pause(self) -> None:
        self.idle.clear()
        self.paused.set()
        self.idle.wait(PATIENCE_S)

    def resume(self) -> None:
        self.paused.clear()


def last_code(answer) -> int:
    """The code of the only partition: the last two bytes."""
    return struct.unpack(">h", answer.data[-2:])[0]


def committed(connection: Connection, group: str) -> int:
    """What a group has committed; waits while it is being loaded."""
    end = time.monotonic() + PATIENCE_S
    while True:
        body = string(group) + struct.pack(">i", 1) + string(TOPIC) + struct.pack(">ii", 1, 0)
        answer = connection.ask(OFFSET_FETCH, 5, body)
        code = last_code(answer)
        if code == 0:
            answer.take(4 + 4)  # throttle time, topics
            answer.take(struct.unpack(">h", answer.take(2))[0] + 4 + 4)
            return struct.unpack(">q", answer.take(8))[0]
        if time.monotonic() > end:
            raise ValueError(f"{group}: error {code} for {PATIENCE_S} s")
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--cores", action="append", default=[])
    o = parser.parse_args()
    moments = random.Random(o.seed)
    cores = o.cores or ["0"]
    # Small segments, and a cleaner that comes often: commits are compacted while they are made.
    settings = ["ring.bytes=16777216", "offsets.topic.segment.bytes=1048576", "log.cleaner.backoff.ms=200"]
    broker = Rillway(settings, None)
    data, log = os.path.join(o.folder, "data"), os.path.join(o.folder, "broker.log")

    def start(life: int) -> Connection:
        broker.spawn(data, o.port, cores[life % len(cores)], log)
        broker.ready()
        return Connection("127.0.0.1", o.port, PATIENCE_S)

    connection = start(0)
    topic = string(TOPIC) + struct.pack(">ihii", 1, 1, 0, 0)
    connection.ask(CREATE_TOPICS, 2, struct.pack(">i", 1) + topic + struct.pack(">ib", 30_000, 0))
    connection.ask(FIND_COORDINATOR, 0, string("g0"))
    groups = [Group(number, o.port) for number in range(o.groups)]
    for group in groups:
        group.start()
    wrong, verifier = 0, Verifier(o.folder)
    for point in range(1, o.points + 1):
        time.sleep(moments.uniform(0.1, 2))
        broker.kill(signal.SIGKILL)
        for group in groups:
            group.pause()
        try:
            damages = verifier.damages(data, f"at point {point}")
        except Hangs as why:
            damages = [str(why)]
        wrong += len(damages)
        for damage in damages:
            print(damage)
        connection = start(point)
        for group in groups:
            found = committed(connection, group.group)
            if not group.acknowledged <= max(found, 0) <= group.tried:
                wrong += 1
                print(f"point {point}: {group.group} has {found}, acknowledged {group.acknowledged}, tried {group.tried}")
            group.resume()
    for group in groups:
        group.over = True
    broker.kill(signal.SIGTERM)
    total = sum(group.acknowledged for group in groups)
    print(f"seed {o.seed}: {o.points} kills, {total} commits acknowledged, {wrong} lost, ahead or damaged")
    return 1 if wrong or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
