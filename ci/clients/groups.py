"""Groups of stock clients against a broker that comes and goes; ci/clients/run --groups starts it.

    groups.py CORES FOLDER NAME...      names as in stock.py

Members are processes of the client (member.py says what they print), a producer of ours writes all the
while. A line per check, `N passed, M failed` last; FOLDER/groups.json is for matrix.py.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import textbook
from check import Judge
from readings import Member, Readings, Source, Wrong, all_read, settled
from stock import STOCK

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "crash"))
import brokers  # noqa: E402

PARTITIONS, MORE_PARTITIONS = 6, 8
PATIENCE_S = 60
# Short, so that the run is; the default, 3 s, has a check of its own.
DELAY = "group.initial.rebalance.delay.ms=100"
# A run that fails is kept for a look; with the default it would take half a gigabyte for each client.
SMALL = "ring.bytes=16777216"


def free_port() -> int:
    """As in ci/lib.sh: its core ports are free too, and it lies below the range of outgoing connections."""
    while True:
        port = random.randrange(12000, 27000)
        try:
            for number in (port, port + 1, port + 1000, port + 1100):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            continue
        return port


class Apache(brokers.Kafka):
    """Apache Kafka with the same settings: what fails there too is the client's way or a wrong check."""

    def __init__(self, settings: list[str]):
        super().__init__(settings, None)
        self.settings = settings

    def command(self, data: str, port: int) -> list[str]:
        return [*super().command(data, port), *self.settings]


class Place:
    """One broker, its folder, and what a scenario does with both."""

    def __init__(self, cores: str, folder: str, name: str, settings: list[str]):
        self.port, self.cores = free_port(), cores
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        kafka = os.environ.get("BROKER") == "kafka"
        self.broker = Apache(settings) if kafka else brokers.Rillway([*settings, SMALL], None)
        self.start()

    def start(self) -> None:
        self.broker.spawn(os.path.join(self.folder, "data"), self.port, self.cores, os.path.join(self.folder, "broker.log"))
        self.broker.ready()

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int) -> None:
        admin = self.admin()  # held: its end fails what it was asked
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)

    def grow(self, topic: str, partitions: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def committed(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """As the broker tells them to anybody; a partition without a commit is left out."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], timeout=30)
        consumer.close()
        return {place.partition: place.offset for place in found if place.offset >= 0}


class Group:
    """A group of one client, the topic that it reads, and its members by name."""

    def __init__(self, place: Place, client: str, what: str, partitions: int, words: list[str]):
        self.place, self.client, self.words = place, client, words
        self.topic = f"{client}-{what}-{int(time.time() * 1000)}"
        self.group = f"group-{self.topic}"
        place.create(self.topic, partitions)
        self.readings = Readings()
        self.repeats = STOCK[client].repeats
        self.readings.forced = bool(self.repeats)
        self.readings.lenient = STOCK[client].repeats_committed
        self.source = Source(place.bootstrap, self.topic, partitions)
        self.members: dict[str, Member] = {}

    def join(self, name: str, *more: str) -> Member:
        stock = STOCK[self.client]
        command = [*stock.command, self.place.bootstrap, "member", self.topic, self.group, *self.words, *more]
        log = os.path.join(self.place.folder, f"{self.topic}.{name}.log")
        self.members[name] = Member(name, command, self.readings, log, stock.leave_signal)
        return self.members[name]

    def leave(self, name: str) -> None:
        if STOCK[self.client].leaves_in_quiet:
            self.source.quiet = True
            time.sleep(0.2)  # the source's tick may have begun
            self.source.flush()
            all_read(self.source, self.readings, PATIENCE_S)
        self.members.pop(name).leave()
        self.source.quiet = False

    def kill(self, name: str) -> None:
        self.members.pop(name).kill()

    def settled(self) -> dict[int, str]:
        return settled(self.source, self.readings, list(self.members.values()), PATIENCE_S)

    def caught_up(self) -> str:
        """Everything that is acknowledged by now was read, and nothing twice that must not be."""
        number = all_read(self.source, self.readings, PATIENCE_S)
        self.readings.none_twice()
        if not self.readings.allowed:
            return f"{number} records so far, each once"
        why = self.repeats or "not committed before something was ended by force"
        return f"{number} records so far, {self.readings.allowed} of them again: {why}"

    def all_committed(self) -> None:
        """Waits until everything that was acknowledged is committed: for clients that commit now and then."""
        wanted: dict[int, int] = {}
        for partition, offset in self.source.acknowledged:
            wanted[partition] = max(offset + 1, wanted.get(partition, 0))
        until = time.monotonic() + PATIENCE_S
        while (seen := self.place.committed(self.group, self.topic, self.source.partitions)) != wanted:
            if time.monotonic() > until:
                raise Wrong(f"committed {seen}, written {wanted}")
            time.sleep(0.2)

    def forced(self, act) -> str:
        """`act` ends something by force: afterwards, what was not committed may be read again."""
        self.readings.forced = True
        for p, offset in self.place.committed(self.group, self.topic, self.source.partitions).items():
            self.readings.commit(p, offset)
        act()
        self.settled()
        said = self.caught_up()
        self.readings.forced = bool(self.repeats)
        return said

    def drop(self) -> None:
        self.source.ended.set()
        if self.source.is_alive():
            self.source.join()
        self.source.producer = None  # ends its connections
        for member in self.members.values():
            member.kill()


def life(judge: Judge, place: Place, client: str, assignor: str, part: bool) -> None:
    """One group from its first member to its last; `part` leaves out adding partitions and the fresh member."""
    group = Group(place, client, assignor or "default", PARTITIONS, [f"assignor={assignor}"] if assignor else [])
    label = f"{client} ({assignor})" if assignor else client
    before = judge.failed

    def pair():
        group.source.start()
        group.join("a")
        group.join("b")
        owners = group.settled()
        group.caught_up()
        return f"{sum(o == 'a' for o in owners.values())} and {sum(o == 'b' for o in owners.values())}"

    def third():
        group.join("c")
        group.settled()
        return group.caught_up()

    def leaves():
        group.leave("b")
        group.settled()
        return group.caught_up()

    def killed():
        group.join("d")
        group.settled()
        group.caught_up()
        return group.forced(lambda: group.kill("c"))

    def more():
        place.grow(group.topic, MORE_PARTITIONS)
        group.source.partitions = MORE_PARTITIONS
        if not STOCK[client].sees_growth:
            group.join("f")
        group.settled()
        return group.caught_up()

    def restart(how):
        def act():
            place.broker.kill(how)
            place.start()

        return lambda: group.forced(act)

    def fresh():
        group.source.end()
        group.caught_up()
        group.all_committed()
        for name in list(group.members):
            group.leave(name)
        group.readings.none_twice()
        # Strict from here on, for every client: all of it was committed.
        group.readings.forced = group.readings.lenient = False
        group.join("e")
        mark = group.source.number
        group.source.once()
        group.source.flush()
        group.caught_up()
        if set(group.readings.owners(mark).values()) != {"e"}:
            raise Wrong(f"read by {group.readings.owners(mark)}")
        group.leave("e")
        return f"{group.source.partitions} new records, nothing again"

    steps = [
        ("two members share the partitions of a topic", pair),
        ("a third joins", third),
        ("one leaves", leaves),
        ("one is killed: the others take over", killed),
        ("partitions are added: they are read too", more),
        ("the broker ends by SIGTERM and comes back", restart(signal.SIGTERM)),
        ("the broker is killed and comes back", restart(signal.SIGKILL)),
        ("a fresh member goes on at the committed offsets", fresh),
    ]
    for sentence, act in steps:
        if part and act is more:
            continue
        # What follows a failure would only repeat it.
        if judge.failed == before:
            judge.check(label, f"group: {sentence}", act)
    group.drop()


def static(judge: Judge, place: Place, client: str) -> None:
    """A static member that comes back within its session has its partitions, and nobody else notices."""
    group = Group(place, client, "static", PARTITIONS, ["session=30000"])

    def act():
        group.source.start()
        a = group.join("a", "instance=a")
        group.join("b", "instance=b")
        owners = group.settled()
        group.caught_up()
        rebalances = len(a.assignments)
        group.kill("b")
        group.join("b", "instance=b")
        group.readings.forced = True
        again = group.settled()
        if again != owners:
            raise Wrong(f"partitions moved: {owners}, then {again}")
        if len(a.assignments) != rebalances:
            raise Wrong(f"the other member was assigned anew: {a.assignments}")
        return group.caught_up()

    judge.check(client, "group: a static member restarts without a rebalance", act)
    group.drop()


def patience_of_the_first(judge: Judge, place: Place, client: str) -> None:
    """With Kafka's default delay: two members that come one after the other are in the first generation."""
    group = Group(place, client, "delay", PARTITIONS, [])

    def act():
        group.source.start()
        a = group.join("a")
        group.join("b")
        group.settled()
        group.caught_up()
        if len(a.assignments) > 1:
            raise Wrong(f"two generations: {a.assignments}")

    judge.check(client, "group: with the default delay of 3 s two members make one generation", act)
    group.drop()


def all_of(client: str, cores: str, folder: str, part: bool) -> tuple[Judge, bool]:
    """All checks of one client, on a broker of its own, since it is ended on the way."""
    stock, judge = STOCK[client], Judge()
    place = Place(cores, folder, client, [DELAY])
    try:
        for assignor in stock.groups[: 1 if part else None]:
            life(judge, place, client, assignor, part)
        if stock.static and not part:
            static(judge, place, client)
        if stock.textbook and not part:
            textbook.run(judge, place, client)
    finally:
        place.broker.kill()
    if client == "java" and not part:
        place = Place(cores, folder, "delay", [])
        try:
            patience_of_the_first(judge, place, client)
        finally:
            place.broker.kill()
    return judge, judge.failed == 0


def main(cores: str, folder: str, names: list[str]) -> bool:
    part, able = os.environ.get("SHORT") == "1", [c for c in names if STOCK[c].groups]
    for client in names:
        if client not in able:
            print(f"skip {client}: it has no groups")
    # Most of the time is spent waiting for sessions to end, so two clients run at a time.
    with ThreadPoolExecutor(2) as pool:
        judges = dict(zip(able, pool.map(lambda c: all_of(c, cores, folder, part), able), strict=True))
    results = {
        c: {"well": well, "assignors": STOCK[c].groups, "static": STOCK[c].static} for c, (_, well) in judges.items()
    }
    with open(os.path.join(folder, "groups.json"), "w", encoding="ascii") as file:
        json.dump(results, file)
    skipped = [line for line in os.environ.get("SKIPPED", "").splitlines() if line]
    print("".join(f"{line}\n" for line in skipped), end="")
    passed, failed = (sum(getattr(j, what) for j, _ in judges.values()) for what in ("passed", "failed"))
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return failed == 0


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
