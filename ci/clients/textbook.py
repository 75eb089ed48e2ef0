"""Range and round-robin as the textbooks have them, by the members' own assignments: exactly who gets what.

The client computes the assignment, the broker hands it on: a member that is missing from what the leader
was told, or an answer for another member, shows here as a share of the wrong size.
"""

import os
import time

from readings import Member, Readings, Wrong
from stock import STOCK

PATIENCE_S = 60


def both(*partitions) -> set[frozenset]:
    """The same partitions of both topics."""
    return {frozenset((topic, p) for topic in (0, 1) for p in part) for part in partitions}


def one(*partitions) -> set[frozenset]:
    return {frozenset((0, p) for p in part) for part in partitions}


# assignor, partitions of each topic, the shares of three members. Round-robin over two topics goes on with
# the next member at the first partition of the second one.
CASES = (
    ("range", (10,), one(range(4), range(4, 7), range(7, 10))),
    ("range", (11,), one(range(4), range(4, 8), range(8, 11))),
    ("range", (10, 10), both(range(4), range(4, 7), range(7, 10))),
    ("roundrobin", (10,), one((0, 3, 6, 9), (1, 4, 7), (2, 5, 8))),
    ("roundrobin", (11,), one((0, 3, 6, 9), (1, 4, 7, 10), (2, 5, 8))),
    (
        "roundrobin",
        (10, 10),
        {frozenset((n // 10, n % 10) for n in range(20) if n % 3 == m) for m in range(3)},
    ),
)


def run(judge, place, client: str) -> None:
    for assignor, sizes, wanted in CASES:
        counts = sorted(map(len, wanted), reverse=True)
        sentence = f"textbook: {assignor} of {' and '.join(map(str, sizes))} partitions over three is {counts}"
        judge.check(client, sentence, lambda a=assignor, s=sizes, w=wanted: assigned(place, client, a, s, w))


def assigned(place, client: str, assignor: str, sizes, wanted) -> None:
    now = int(time.time() * 1000)
    topics = [f"textbook-{client}-{now}-{i}" for i in range(len(sizes))]
    for topic, size in zip(topics, sizes, strict=True):
        place.create(topic, size)
    stock, members = STOCK[client], []
    try:
        for name in "abc":
            words = ["member", ",".join(topics), f"group-{topics[0]}", f"assignor={assignor}"]
            log = os.path.join(place.folder, f"{topics[0]}.{name}.log")
            members.append(Member(name, [*stock.command, place.bootstrap, *words], Readings(), log, stock.leave_signal))
        until, seen = time.monotonic() + PATIENCE_S, None
        while seen != wanted:
            if time.monotonic() > until:
                raise Wrong(f"got {sorted(map(sorted, seen))}, expected {sorted(map(sorted, wanted))}")
            time.sleep(0.1)
            seen = {frozenset(parse(a, topics) for a in m.assignments[-1]) for m in members if m.assignments}
    finally:
        for member in members:
            member.kill()


def parse(word: str, topics: list[str]) -> tuple[int, int]:
    topic, _, partition = word.rpartition(":")
    return topics.index(topic), int(partition)
