"""Runs the client programs against one broker and judges what they did; ci/clients/run starts it.

    check.py BOOTSTRAP FOLDER NAME...      names as in stock.py

Every client writes one topic per codec; every client reads every topic. Before anything is read by a
client, the batches are fetched as bytes and judged: codec, CRC, dense offsets. A line per check, and
`N passed, M failed` last; FOLDER/results.json is what matrix.py makes the README's table from.
"""

import json
import os
import subprocess
import sys
import time

import records
from stock import STOCK

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wire  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HERE = os.path.dirname(os.path.abspath(__file__))
SMALL_TOPIC_CODEC = "lz4"  # which topic the checks of seeking and times use
TRANSACTION_PATIENCE_S = 15


class Program:
    """A client program and its answers."""

    def __init__(self, name: str, command: list[str], log: str):
        self.name = name
        with open(log, "wb") as stderr:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=HERE
            )

    def ask(self, *words) -> list[str]:
        """The lines of the answer. Raises Cannot or Failed."""
        if self.process.poll() is not None:
            raise Failed(f"{self.name} has ended before, exit code {self.process.returncode}")
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "done":
                return lines
            if word in ("failed", "cannot"):
                raise (Failed if word == "failed" else Cannot)(rest)
            lines.append(line.strip())
        raise Failed(f"{self.name} ended in the middle of `{words[0]}`, exit code {self.process.wait()}")

    def end(self) -> None:
        if self.process.poll() is not None:
            return
        self.process.stdin.close()
        self.process.wait(30)


class Failed(Exception):
    pass


class Cannot(Exception):
    pass


class Judge:
    """Counts and prints checks."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name: str, sentence: str, act) -> object:
        """`act` returns None or words to add; it raises what is wrong. Gives what it returned."""
        try:
            more = act()
        except Cannot as why:
            print(f"skip {name}: {sentence} ({why})", flush=True)
            return None
        except Exception as why:  # a finding, whatever it is
            self.failed += 1
            print(f"FAIL {name}: {sentence}: {type(why).__name__}: {why}", flush=True)
            return None
        self.passed += 1
        print(f"ok {name}: {sentence}" + (f", {more}" if more else ""), flush=True)
        return more


def expect(got, wanted, what: str) -> None:
    if got != wanted:
        raise Failed(f"{what}: got {short(got)}, expected {short(wanted)}")


def short(thing) -> str:
    text = thing.line() if isinstance(thing, records.Record) else str(thing)
    return text if len(text) < 160 else f"{text[:150]}... ({len(text)} characters)"


def compare(reader: str, got: list, written: list, around: tuple[int, int]) -> None:
    """Raises at the first record that is not as it was written."""
    expect(len(got), len(written), "number of records")
    key = lambda r: (r.partition, r.offset)  # noqa: E731
    for g, w in zip(sorted(got, key=key), map(STOCK[reader].shown, sorted(written, key=key)), strict=True):
        where = f"partition {w.partition} offset {w.offset}"
        expect((g.partition, g.offset), (w.partition, w.offset), where)
        expect(g.key, w.key, f"key at {where}")
        expect(g.value, w.value, f"value at {where}")
        expect(g.headers, w.headers, f"headers at {where}")
        if w.timestamp is not None:
            expect(g.timestamp, w.timestamp, f"timestamp at {where}")
        elif not around[0] <= g.timestamp <= around[1]:
            raise Failed(f"timestamp at {where}: {g.timestamp}, written within {around}")


class Topic:
    def __init__(self, name: str, writer: str, codec: str, written: list):
        self.name, self.writer, self.codec, self.written = name, writer, codec, written
        self.around = (0, 0)

    def ends(self) -> dict[int, int]:
        ends = {p: 0 for p in range(records.PARTITIONS)}
        for r in self.written:
            ends[r.partition] += 1
        return ends

    def part(self, partition: int) -> list:
        return [r for r in self.written if r.partition == partition]


def as_bytes(broker: wire.Kafka, topic: Topic) -> str:
    """Fetches the topic as it lies in the log: CRCs, dense offsets, the codec really used."""
    leaders, seen = broker.leaders(topic.name), {}
    for partition, end in topic.ends().items():
        offset = 0
        while offset < end:
            code, _, data = wire.fetch(broker.node(leaders[partition]), topic.name, partition, offset)
            if code:
                raise wire.KafkaError(code, f"Fetch of partition {partition} at {offset}")
            found = wire.batches(data)
            if not found:
                raise Failed(f"no whole batch in the answer for partition {partition} offset {offset}")
            for b in found:
                expect(b.base, offset, f"base offset in partition {partition}")
                expect(b.count, b.last_delta + 1, f"records counted at offset {offset}")
                seen[b.codec] = seen.get(b.codec, 0) + b.count
                offset += b.count
        expect(offset, end, f"end of partition {partition}")
    # A client may leave a batch that does not shrink as it is, but not all of them. This is no idle
    # check: librdkafka sends LZ4 uncompressed, without a word, to a broker that does not advertise
    # FindCoordinator 0, and old ones do so with every codec where Produce starts at 3.
    if topic.codec not in seen:
        raise Failed(f"no batch has the codec {topic.codec}: {seen}")
    return f"{seen[topic.codec]} records in it"


def write(judge: Judge, program: Program, broker: wire.Kafka, codec: str, folder: str, run: int) -> Topic | None:
    name = f"{program.name}-{codec}-{run}"
    now = int(time.time() * 1000)
    seed = sum(name.encode())
    written = STOCK[program.name].corpus(seed, now - 3_600_000)
    topic = Topic(name, program.name, codec, written)
    path = os.path.join(folder, f"{name}.written")
    records.save(path, written)

    def create():
        try:
            program.ask("create", name, records.PARTITIONS)
        except Cannot:
            # The first request for a topic that does not exist creates it with num.partitions.
            return

    def act():
        create()
        started = int(time.time() * 1000)
        acknowledged = [tuple(map(int, line.split())) for line in program.ask("write", name, codec, path)]
        topic.around = (started - 1000, int(time.time() * 1000) + 1000)
        expect(sorted(acknowledged), sorted((r.partition, r.offset) for r in written), "acknowledged offsets")
        return f"{len(written)} records, {sum(len(r.value or b'') for r in written) >> 10} KiB"

    if judge.check(program.name, f"writes four partitions with {codec}", act) is None:
        return None
    judge.check(program.name, f"wrote {codec}: batches in the log are dense and sound", lambda: as_bytes(broker, topic))
    return topic


def read(judge: Judge, program: Program, topic: Topic, folder: str) -> bool:
    """Whether it read the topic as it was written."""
    path = os.path.join(folder, f"{topic.name}.{program.name}.read")
    left = {r.partition for r in topic.written if STOCK[program.name].unreadable(r)}
    written = [r for r in topic.written if r.partition not in left]

    def act():
        parts = [f"{p}:0:{end}" for p, end in topic.ends().items() if p not in left]
        program.ask("read", topic.name, path, *parts)
        compare(program.name, records.load(path), written, topic.around)
        os.remove(path)
        without = "".join(f", without partition {p}, which has what it cannot read" for p in left)
        return f"{len(written)} records byte for byte{without}"

    return judge.check(program.name, f"reads what {topic.writer} wrote with {topic.codec}", act) is not None


def seek(judge: Judge, program: Program, topic: Topic, folder: str) -> None:
    """Seeking, offsets by time, the ends, and beyond them; on a topic with timestamps that were set."""
    name, path = program.name, os.path.join(folder, f"{topic.name}.{program.name}.part")
    many = topic.part(1)
    end = len(many)

    def middle():
        for first in (end // 2, 1, end - 5):
            program.ask("read", topic.name, path, f"1:{first}:{min(first + 50, end)}")
            compare(name, records.load(path), many[first : first + 50], topic.around)

    def back_again():
        program.ask("read", topic.name, path, "2:3:5", "0:2:7", "3:100:150")
        wanted = topic.part(2)[3:5] + topic.part(0)[2:7] + topic.part(3)[100:150]
        compare(name, records.load(path), wanted, topic.around)

    def times():
        stamps = sorted(r.timestamp for r in many)
        asked = (stamps[0] - 1, stamps[0], stamps[end // 3], stamps[end // 2] + 1, stamps[-2], stamps[-1])
        for t in asked:
            first = next(r.offset for r in many if r.timestamp >= t)
            expect(program.ask("offset-for", topic.name, 1, t), [str(first)], f"first offset at {t}")

    def too_late():
        newest = max(r.timestamp for r in many)
        expect(program.ask("offset-for", topic.name, 1, newest + 1)[0] in ("none", str(end)), True, "none or the end")

    def bounds():
        for p, size in topic.ends().items():
            expect(program.ask("bounds", topic.name, p), [f"0 {size}"], f"ends of partition {p}")

    def newest():
        best = max(r.timestamp for r in many)
        wanted = [str(r.offset) for r in many if r.timestamp == best]
        got = program.ask("newest", topic.name, 1)
        expect(got[0] in wanted, True, f"offset {got[0]} of the largest timestamp, one of {wanted}")

    def beyond(where, wanted):
        expect(program.ask("out-of-range", topic.name, 1, end + 1000, where), [wanted], "answer")

    judge.check(name, "seeks to the middle, near the start and near the end", middle)
    judge.check(name, "seeks in three partitions at once", back_again)
    judge.check(name, "finds offsets by timestamp, also where times go back", times)
    judge.check(name, "finds nothing after the newest timestamp", too_late)
    judge.check(name, "sees the first and the end offset of each partition", bounds)
    if name == "java":
        judge.check(name, "finds the offset of the largest timestamp", newest)
    judge.check(name, "is told that an offset is out of range", lambda: beyond("none", "OFFSET_OUT_OF_RANGE"))
    judge.check(name, "out of range, starts again at the earliest", lambda: beyond("earliest", "0"))
    judge.check(name, "out of range, goes to the latest", lambda: beyond("latest", str(end)))


def transactional(judge: Judge, program: Program, expected: str) -> None:
    if expected == "accepted":
        print(f"skip {program.name}: a transactional.id is refused (this broker has transactions)")
        return

    def act():
        started = time.monotonic()
        answer = program.ask("transactional", TRANSACTION_PATIENCE_S)
        took = time.monotonic() - started
        if answer == ["accepted"]:
            raise Failed("init_transactions succeeded on a broker without transactions")
        if took > TRANSACTION_PATIENCE_S / 2:
            raise Failed(f"{answer[0]} only after {took:.1f} s")
        return f"{answer[0]}, in {took:.1f} s"

    judge.check(program.name, "a transactional.id gets a prompt error", act)


def main(bootstrap: str, folder: str, names: list[str]) -> bool:
    judge, run = Judge(), int(time.time())
    broker = wire.Kafka(bootstrap)
    logs = {n: os.path.join(folder, f"{n}.log") for n in names}
    programs = [Program(n, [*STOCK[n].command, bootstrap], logs[n]) for n in names]
    results = {p.name: {"version": p.ask("version")[0], "writes": [], "reads": {}} for p in programs}
    topics = [write(judge, p, broker, codec, folder, run) for p in programs for codec in CODECS]
    topics = [t for t in topics if t is not None]
    for topic in topics:
        results[topic.writer]["writes"].append(topic.codec)
    for program in programs:
        for topic in topics:
            well = read(judge, program, topic, folder)
            results[program.name]["reads"].setdefault(topic.codec, []).append(well)
    timed = [t for t in topics if t.codec == SMALL_TOPIC_CODEC and t.writer != "kcat"]
    for program in programs:
        # What it wrote itself, or what the first one wrote that can set timestamps.
        own = [t for t in timed if t.writer == program.name] or timed
        if own:
            seek(judge, program, own[0], folder)
        else:
            print(f"skip {program.name}: seeking and times (no client that sets timestamps was run)")
        transactional(judge, program, os.environ.get("TRANSACTIONS", "refused"))
    for program in programs:
        program.end()
    broker.close()
    with open(os.path.join(folder, "results.json"), "w", encoding="ascii") as file:
        json.dump(results, file)
    if judge.failed:
        print("what the clients said: " + " ".join(logs.values()))
    # Clients that could not be installed: a line each, from the script that tried.
    skipped = [line for line in os.environ.get("SKIPPED", "").splitlines() if line]
    print("".join(f"{line}\n" for line in skipped), end="")
    print(f"{judge.passed} passed, {judge.failed} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    return judge.failed == 0


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
