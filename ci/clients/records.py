"""The records that every client writes and reads, in one text form that every language can parse.

A line is one record, fields separated by a blank:

    partition offset timestamp key value headers

Bytes are `x` and hex digits (`x` alone is empty), null is `~`. Headers are `name=value` joined by
commas, in order, both in that form; `-` is none. A timestamp of `?` means that the client could not
set one, and any time during the write will do.
"""

import dataclasses
import random

PARTITIONS = 4


@dataclasses.dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    timestamp: int | None  # milliseconds; None: chosen by the client
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def line(self) -> str:
        headers = ",".join(f"{_hex(n.encode())}={_hex(v)}" for n, v in self.headers) or "-"
        timestamp = "?" if self.timestamp is None else self.timestamp
        return f"{self.partition} {self.offset} {timestamp} {_hex(self.key)} {_hex(self.value)} {headers}"


def _hex(data: bytes | None) -> str:
    return "~" if data is None else "x" + data.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == "~" else bytes.fromhex(text[1:])


def parse(line: str) -> Record:
    partition, offset, timestamp, key, value, headers = line.split(" ")
    pairs = [] if headers == "-" else [h.split("=") for h in headers.split(",")]
    return Record(
        int(partition),
        int(offset),
        None if timestamp == "?" else int(timestamp),
        _bytes(key),
        _bytes(value),
        tuple((_bytes(n).decode(), _bytes(v)) for n, v in pairs),
    )


def load(path: str) -> list[Record]:
    with open(path, encoding="ascii") as file:
        return [parse(line.rstrip("\n")) for line in file]


def save(path: str, records) -> None:
    with open(path, "w", encoding="ascii") as file:
        for record in records:
            file.write(record.line() + "\n")


def corpus(seed: int, start_ms: int, *, small: int = 1500, nulls: bool = True) -> list[Record]:
    """What one client writes to one topic: the offset of each record is its place in its partition.

    Partition 0 has every shape of key, value and headers; 1 many small records whose timestamps go
    back and forth; 2 large ones, some that do not compress; 3 tombstones and texts by key. Without
    `nulls` there is no record of neither key nor value, and no header without a value.
    """
    draw = random.Random(seed)
    out: list[Record] = []
    ends = [0] * PARTITIONS

    def add(partition, timestamp, key, value, headers=()):
        out.append(Record(partition, ends[partition], timestamp, key, value, tuple(headers)))
        ends[partition] += 1

    t = start_ms
    add(0, t, b"key", b"value")
    add(0, t + 1, None, b"null key")
    add(0, t + 2, b"null value", None)
    add(0, t + 3, b"", b"empty key")
    add(0, t + 4, b"empty value", b"")
    add(0, t + 5, b"", b"")
    if nulls:
        add(0, t + 6, None, None)
    add(0, t + 7, bytes(range(256)), bytes(range(255, -1, -1)))
    add(0, t + 8, b"h", b"twice and in order", [("a", b"1"), ("b", b"2"), ("a", b"3"), ("a", b"1")])
    odd = [("empty", b""), ("bin", bytes(range(256)))] + ([("null", None)] if nulls else [])
    add(0, t + 9, b"h", b"odd values", odd)
    add(0, t + 10, b"h", b"a name that is not ASCII", [("gr\u00f6\u00dfe \U0001f680", b"x")])
    add(0, t + 11, None, b"many", [(f"n{i % 7}", str(i).encode()) for i in range(60)])

    for i in range(small):
        # Back and forth by up to five seconds, so that an index by time must not take offsets for times.
        add(1, t + i * 10 + draw.randrange(-5000, 5000), f"k{i}".encode(), draw.randbytes(draw.randrange(40)))

    for i, size in enumerate((700_000, 1, 900_000, 20, 65_536, 4096)):
        add(2, t + i, f"random {i}".encode(), draw.randbytes(size))
        add(2, t + i, f"plain {i}".encode(), (b"the same words again, " * (size // 22 + 1))[:size])

    for i in range(200):
        key = f"user-{draw.randrange(20)}".encode()
        value = None if draw.random() < 0.2 else f"text {i} \u00e4\u20ac".encode()
        add(3, t + i * 1000, key, value, [("i", str(i).encode())] if i % 3 else [])
    return out
