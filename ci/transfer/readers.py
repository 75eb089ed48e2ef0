"""Readers of cold data: one that reads all, some that stall and go on, many that read nothing. See ci/transfer/run."""

import argparse
import hashlib
import pathlib
import random
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import wire

TOPIC, PARTITION = "transfer", 0
VALUE = 1_000_000
# The whole budget, what the pool of buffers keeps, and room for descriptors and tasks of the connections. Before there
# was a budget each stalled reader held a mebibyte.
GROWTH_MAX = (64 + 32 + 32) << 20
ALL = 1 << 30


def value(n: int, base: bytes) -> bytes:
    return struct.pack(">q", n) + base[n % 4096 : n % 4096 + VALUE - 8]


def rss(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


def fill(connection: wire.Connection, count: int, base: bytes) -> list[bytes]:
    digests = []
    window = 8
    for n in range(count + window):
        if n < count:
            data = value(n, base)
            digests.append(hashlib.blake2b(data).digest())
            records = wire.batch([data], 1_000 + n)
            connection.send(wire.PRODUCE, 7, wire.produce_body(TOPIC, PARTITION, records))
        if n >= window:
            code, offset = wire.produce_answer(connection.receive())
            assert (code, offset) == (0, n - window), f"code {code}, offset {offset}, expected {n - window}"
    return digests


def check(records: bytes, offset: int, digests: list[bytes]) -> int:
    """Compares each value of an answer; the offset behind it."""
    for found in wire.batches(records):
        assert found.base == offset, f"offset {found.base}, expected {offset}"
        (data,) = found.values()
        assert hashlib.blake2b(data).digest() == digests[offset], f"other bytes at offset {offset}"
        offset += 1
    return offset


def read_all(connection: wire.Connection, digests: list[bytes], max_bytes: int) -> float:
    offset, began = 0, time.monotonic()
    while offset < len(digests):
        _, _, records = wire.fetch(connection, TOPIC, PARTITION, offset, max_bytes=max_bytes)
        after = check(records, offset, digests)
        assert after > offset, f"nothing at offset {offset}"
        offset = after
    return time.monotonic() - began


def ask(connection: wire.Connection, offset: int) -> None:
    """Sends a fetch and leaves its answer where it is."""
    body = struct.pack(">iiiibiii", -1, 0, 1, ALL, 1, 0, -1, 1) + wire.string(TOPIC)
    body += struct.pack(">iiiqqi", 1, PARTITION, -1, offset, -1, ALL) + struct.pack(">i", 0) + wire.string("")
    connection.send(wire.FETCH, 11, body)


def take(connection: wire.Connection) -> bytes:
    answer = connection.receive()
    answer.i32(), answer.i16(), answer.i32(), answer.i32(), answer.string(), answer.i32(), answer.i32()
    answer.i16(), answer.i64(), answer.i64(), answer.i64()
    for _ in answer.each():
        answer.i64(), answer.i64()
    answer.i32()
    return answer.blob()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--broker", required=True)
    options.add_argument("--pid", type=int, required=True)
    options.add_argument("--name", required=True)
    options.add_argument("--mib", type=int, default=1024)
    options.add_argument("--stalled", type=int, default=300)
    options = options.parse_args()
    kafka = wire.Kafka(options.broker, timeout=120)
    kafka.create_topic(TOPIC, 1)
    leader = kafka.leaders(TOPIC)[PARTITION]
    host, port = kafka.nodes[leader]
    count = (options.mib << 20) // VALUE
    digests = fill(kafka.node(leader), count, random.Random(1).randbytes(VALUE + 4096))
    # So that everything but the end is sealed and out of memory: destage rounds follow each other within milliseconds.
    time.sleep(3)

    before = rss(options.pid)
    stalled = [wire.Connection(host, port, 120) for _ in range(options.stalled)]
    places = [n * count // options.stalled for n in range(options.stalled)]
    for connection, offset in zip(stalled, places):
        ask(connection, offset)
    time.sleep(2)
    peak = rss(options.pid)
    reader = wire.Connection(host, port, 120)
    seconds = read_all(reader, digests, 8 << 20)
    peak = max(peak, rss(options.pid))
    # Some go on where they stalled.
    for connection, offset in list(zip(stalled, places))[:: max(1, options.stalled // 5)]:
        assert check(take(connection), offset, digests) > offset
    peak = max(peak, rss(options.pid))
    grown = peak - before
    print(
        f"transfer={options.name}: {count} MB read back in {seconds:.1f} s beside {options.stalled} stalled readers, "
        f"5 of which went on; resident memory {before >> 20} MiB, grown by {grown >> 20} MiB"
    )
    assert grown <= GROWTH_MAX, f"grown by {grown >> 20} MiB, at most {GROWTH_MAX >> 20} expected"


main()
