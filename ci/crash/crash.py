"""Kills a broker at random moments under load and judges what it serves after its restart.

    crash.py kill9|powercut --points N --folder F --port P [--seed S] [--broker rillway|kafka]
             [--cores LIST]... [--set KEY=VALUE]... [--mutant NAME]

Between a kill and the next start, and while it serves again, `rillctl log verify` must find nothing.
After each restart every log is read from its first offset to its end and compared with everything that
was ever acknowledged or shown in this data directory; it is renewed every twenty points, so that
reading it all stays cheap. A quarter of the points kills once more while the broker recovers. Exit code
0: nothing lost (with a mutant: something was), 1: the opposite, 2: the broker did not start again, or hangs.
"""

import argparse
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import load  # noqa: E402
import wire  # noqa: E402
from brokers import DidNotStart, Folder, Kafka, LoopDisk, NoLoopDevices, Rillway, until  # noqa: E402
from ledger import Ledger  # noqa: E402
from verify import Hangs, Verifier  # noqa: E402

POINTS_PER_DIRECTORY = 20
LOAD_BYTES = 48 << 20  # of one point, at most; three rings of 16 MiB
# Topic, partitions, idempotent, sizes of a batch. `large` is what laps a small ring.
TOPICS = (
    ("small", 6, True, (40, 200, 1000)),
    ("plain", 4, False, (40, 700, 9000)),
    ("large", 2, True, (60_000, 200_000, 400_000)),
)


class Run:
    def __init__(self, options):
        self.o = options
        self.draw = random.Random(options.seed)
        kind = {"rillway": Rillway, "kafka": Kafka}[options.broker]
        self.broker = kind(options.set, options.mutant)
        self.disk = (LoopDisk if options.mode == "powercut" else Folder)(options.folder)
        self.bootstrap = f"127.0.0.1:{options.port}"
        self.log = os.path.join(options.folder, "broker.log")
        self.acknowledged = self.lost = 0
        self.ledgers: list[Ledger] = []
        self.producers: dict[str, tuple[int, int]] = {}
        self.wrong: list[str] = []
        # A mutant's directory is damaged by intention; what it lost is counted.
        verified = options.broker == "rillway" and not options.mutant
        self.verifier = Verifier(options.folder) if verified else None

    def spawn(self) -> None:
        cores = self.draw.choice(self.o.cores)
        self.broker.spawn(self.disk.path, self.o.port, cores, self.log)

    def connect(self) -> wire.Kafka:
        """Waits until the broker serves every partition."""
        self.broker.ready()
        broker = wire.Kafka(self.bootstrap)
        wanted = {name: n for name, n, _, _ in TOPICS} if self.ledgers else {}

        def served():
            return all(len(broker.leaders(t)) == n for t, n in wanted.items())

        if not until(30, served, 0.02):
            missing = {t: n - len(broker.leaders(t)) for t, n in wanted.items()}
            raise DidNotStart(f"partitions without a leader 30 s after the restart: {missing}")
        return broker

    def renew(self) -> None:
        """A new data directory with new topics."""
        self.disk.renew()
        self.ledgers = []
        self.spawn()
        broker = self.connect()
        for name, partitions, idempotent, _ in TOPICS:
            broker.create_topic(name, partitions)
            self.ledgers += [Ledger(name, p, idempotent) for p in range(partitions)]
            until(30, lambda n=name, k=partitions: len(broker.leaders(n)) == k, 0.02)
            if idempotent:
                self.producers[name] = broker.init_producer_id()
        broker.close()
        if self.broker.quiet_until_synced and isinstance(self.disk, LoopDisk):
            self.disk.sync()

    def verify(self, when: str) -> None:
        """Every file of the data directory, as a person would check it before the next start."""
        if self.verifier:
            self.wrong += self.verifier.damages(self.disk.path, when)

    def load_and_cut(self) -> tuple[float, int]:
        """Runs the load, cuts at a random moment; how long it ran, how many records were acknowledged."""
        before = sum(l.records_acknowledged() for l in self.ledgers)
        pace = load.Pace(LOAD_BYTES)
        workers: list[load.Worker] = []
        for name, _, idempotent, sizes in TOPICS:
            mine = [l for l in self.ledgers if l.topic == name]
            producer = self.producers[name] if idempotent else None
            workers.append(load.Writer(self.bootstrap, mine, producer, sizes, pace, self.draw.randrange(1 << 30)))
        workers.append(load.Reader(self.bootstrap, self.ledgers))
        for worker in workers:
            worker.start()
        started = time.monotonic()
        # The moment is drawn in bytes as well as in time, or a fast broker would always be cut idle,
        # after the last byte; and something must be at stake.
        moment, limit = self.draw.uniform(0.02, 0.9) * LOAD_BYTES, self.draw.uniform(0.05, 2.5)
        at_stake = sum(len(l.acknowledged) for l in self.ledgers) + 5
        until(30, lambda: sum(len(l.acknowledged) for l in self.ledgers) >= at_stake or self.stopped(workers))
        until(limit, lambda: LOAD_BYTES - pace.left >= moment or self.stopped(workers), 0.001)
        self.disk.cut(self.broker.kill)
        ran = time.monotonic() - started
        self.verify("after the kill")
        workers[-1].stop = True
        for worker in workers:
            worker.join(40)
            self.wrong += worker.wrong
        acknowledged = sum(l.records_acknowledged() for l in self.ledgers) - before
        if not acknowledged:
            # A point that put nothing at stake proves nothing.
            ends = "; ".join(f"{w.name}: {w.ended_by or 'cut'}" for w in workers)
            self.wrong.append(f"no record was acknowledged before the cut ({ends})")
        return ran, acknowledged

    @staticmethod
    def stopped(workers) -> bool:
        return not any(w.is_alive() for w in workers[:-1])

    def judge(self, broker: wire.Kafka) -> int:
        """Reads every log; the number of acknowledged records that are lost."""
        lost = 0
        leaders = {t: broker.leaders(t) for t, _, _, _ in TOPICS}
        for ledger in self.ledgers:
            try:
                wrong, missing = ledger.judge(*load.whole_log(broker, ledger, leaders[ledger.topic]))
            except (ValueError, wire.KafkaError) as why:
                wrong, missing = [f"{ledger} cannot be read: {why}"], ledger.records_acknowledged()
            self.wrong += wrong
            lost += missing
        return lost

    def point(self, number: int) -> None:
        if (number - 1) % POINTS_PER_DIRECTORY == 0:
            if number > 1:
                self.broker.kill()
            self.renew()
        ran, acknowledged = self.load_and_cut()
        again = ""
        if self.draw.random() < 0.25 and self.o.broker == "rillway":
            self.spawn()
            moment = self.draw.uniform(0, 0.4)
            time.sleep(moment)
            self.disk.cut(self.broker.kill)
            self.verify("after a kill during recovery")
            again = f", again {moment:.2f} s into recovery"
        self.spawn()
        started = time.monotonic()
        broker = self.connect()
        took = time.monotonic() - started
        lost = self.judge(broker)
        broker.close()
        self.verify("while it serves again")
        self.acknowledged += acknowledged
        self.lost += lost
        verb = "cut" if self.o.mode == "powercut" else "killed"
        print(
            f"point {number}: {verb} after {ran:.2f} s{again}, {acknowledged} records acknowledged, "
            f"serves again after {took:.2f} s, lost {lost}",
            flush=True,
        )

    def go(self) -> int:
        number = 0
        try:
            for number in range(1, self.o.points + 1):
                self.point(number)
                if self.lost or (self.wrong and not self.o.mutant):
                    break
        except DidNotStart as why:
            print(f"the broker did not start: {why}")
            self.wrong.append("see above")
            return 2
        except Hangs as why:
            print(f"hangs: {why}")
            self.wrong.append("see above")
            return 2
        finally:
            self.broker.kill()
            if not self.wrong:
                self.disk.drop()
            elif isinstance(self.disk, LoopDisk) and self.disk.mounted:
                self.disk._unmount()
        for line in self.wrong[:12]:
            print(f"  {line}")
        if len(self.wrong) > 12:
            print(f"  and {len(self.wrong) - 12} more")
        verified = f", {self.verifier.checked} times verified" if self.verifier else ""
        print(f"points {number}, acknowledged {self.acknowledged}, lost {self.lost}{verified} (seed {self.o.seed})")
        if self.wrong:
            print(f"kept for a look: {self.o.folder}")
        if self.o.mutant:
            # Only a loss of records proves that the harness sees such losses.
            print(f"mutant {self.o.mutant}: " + ("caught" if self.lost else "SURVIVED"))
            return 0 if self.lost else 1
        return 1 if self.wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("kill9", "powercut"))
    parser.add_argument("--points", type=int, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--broker", choices=("rillway", "kafka"), default="rillway")
    parser.add_argument("--cores", action="append")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--mutant")
    options = parser.parse_args()
    options.cores = options.cores or ["0"]
    # A limit of time from outside ends the run in order: nothing stays mounted or running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        return Run(options).go()
    except NoLoopDevices as why:
        print(f"SKIPPED: no loop devices, or no ext4 on them: {why}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
