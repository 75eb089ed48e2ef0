"""A small Kafka client that hides nothing: requests as they are, batches as bytes.

For checks that need to know exactly what went over the wire: which codec a batch has, which sequence
number was sent, what was acknowledged before a kill. Plain blocking sockets, one request at a time or
pipelined by hand; no retries, no background threads. Needs the package crc32c.
"""

import dataclasses
import socket
import struct
import time

import crc32c

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 19, 22
EARLIEST, LATEST = -2, -1
COORDINATOR_LOAD_IN_PROGRESS = 14
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


class KafkaError(Exception):
    def __init__(self, code: int, where: str):
        super().__init__(f"error {code} in {where}")
        self.code = code


class Reader:
    """Reads big-endian fields off a response."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        if self.at + n > len(self.data):
            raise ValueError(f"response too short: {n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> int:
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0]

    def i8(self):
        return self.number("b")

    def i16(self):
        return self.number("h")

    def i32(self):
        return self.number("i")

    def i64(self):
        return self.number("q")

    def string(self) -> str | None:
        n = self.i16()
        return None if n < 0 else self.take(n).decode()

    def blob(self) -> bytes:
        n = self.i32()
        return b"" if n < 0 else self.take(n)

    def each(self):
        return range(self.i32())


def string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class Connection:
    """One socket. `send` numbers requests; `receive` gives answers in the order of the requests."""

    def __init__(self, host: str, port: int, timeout: float = 30):
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = self.received = 0

    def send(self, key: int, version: int, body: bytes) -> None:
        head = struct.pack(">hhi", key, version, self.sent) + string("ci")
        self.sent += 1
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def receive(self) -> Reader:
        size = struct.unpack(">i", self._exactly(4))[0]
        answer = Reader(self._exactly(size))
        number = answer.i32()
        if number != self.received:
            raise ValueError(f"answer {number} where {self.received} was expected")
        self.received += 1
        return answer

    def ask(self, key: int, version: int, body: bytes) -> Reader:
        self.send(key, version, body)
        return self.receive()

    def _exactly(self, n: int) -> bytes:
        parts = []
        while n:
            part = self.socket.recv(min(n, 1 << 20))
            if not part:
                raise ConnectionError("closed by the broker")
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.socket.close()


def varint(n: int) -> bytes:
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def batch(values, timestamp: int, producer_id=-1, epoch=-1, sequence=-1) -> bytes:
    """An uncompressed v2 batch of records with a null key and no headers."""
    records = bytearray()
    for i, value in enumerate(values):
        body = b"\x00" + varint(0) + varint(i) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(body)) + body
    n = len(values)
    after_crc = struct.pack(">hiqqqhii", 0, n - 1, timestamp, timestamp, producer_id, epoch, sequence, n)
    after_crc += records
    head = struct.pack(">qiibI", 0, 9 + len(after_crc), 0, 2, crc32c.crc32c(after_crc))
    return head + after_crc


@dataclasses.dataclass
class Batch:
    base: int
    crc: int
    codec: str
    last_delta: int
    max_timestamp: int
    producer: tuple[int, int, int]  # id, epoch, base sequence
    count: int
    body: bytes  # the records, compressed if they are

    def values(self):
        """Values of an uncompressed batch, in order."""
        at, data = 0, self.body

        def read():
            nonlocal at
            shift = n = 0
            while True:
                b = data[at]
                at += 1
                n |= (b & 0x7F) << shift
                if b < 0x80:
                    return (n >> 1) ^ -(n & 1)
                shift += 7

        for _ in range(self.count):
            end = read() + at
            at += 1
            read(), read()
            key = max(read(), 0)
            at += key
            size = read()
            yield data[at : at + size]
            at = end


def batches(data: bytes) -> list[Batch]:
    """Takes a fetched record set apart and checks each CRC; a partial last batch is dropped."""
    out, at = [], 0
    while at + BATCH_HEADER.size <= len(data):
        (base, length, _, magic, crc, attributes, last_delta, _, newest, pid, epoch, sequence, count) = (
            BATCH_HEADER.unpack_from(data, at)
        )
        end = at + 12 + length
        if magic != 2 or length < 49:
            raise ValueError(f"no batch at byte {at} of the record set: magic {magic}, length {length}")
        if end > len(data):
            break
        if crc32c.crc32c(data[at + 21 : end]) != crc:
            raise ValueError(f"CRC of the batch at offset {base} does not fit")
        body = data[at + BATCH_HEADER.size : end]
        producer = (pid, epoch, sequence)
        out.append(Batch(base, crc, CODECS[attributes & 7], last_delta, newest, producer, count, body))
        at = end
    return out


class Kafka:
    """Requests to one bootstrap address; data goes to the node that leads the partition."""

    def __init__(self, bootstrap: str, timeout: float = 30):
        host, port = bootstrap.rsplit(":", 1)
        self.timeout = timeout
        self.first = Connection(host, int(port), timeout)
        self.nodes: dict[int, tuple[str, int]] = {}
        self.connections: dict[int, Connection] = {}

    def close(self) -> None:
        for connection in (self.first, *self.connections.values()):
            connection.close()

    def create_topic(self, topic: str, partitions: int, configs=None) -> None:
        pairs = b"".join(string(k) + string(v) for k, v in (configs or {}).items())
        body = struct.pack(">i", 1) + string(topic) + struct.pack(">ihi", partitions, 1, 0)
        body += struct.pack(">i", len(configs or {})) + pairs + struct.pack(">i?", 30_000, False)
        answer = self.first.ask(CREATE_TOPICS, 2, body)
        answer.i32()
        for _ in answer.each():
            answer.string()
            code, _ = answer.i16(), answer.string()
            if code:
                raise KafkaError(code, f"CreateTopics {topic}")

    def leaders(self, topic: str) -> dict[int, int]:
        """Node of each partition that has a leader; creates nothing."""
        answer = self.first.ask(METADATA, 4, struct.pack(">i", 1) + string(topic) + b"\x00")
        answer.i32()
        for _ in answer.each():
            node, host, port, _ = answer.i32(), answer.string(), answer.i32(), answer.string()
            self.nodes[node] = (host, port)
        answer.string(), answer.i32()
        leaders = {}
        for _ in answer.each():
            answer.i16(), answer.string(), answer.i8()
            for _ in answer.each():
                code, partition, leader = answer.i16(), answer.i32(), answer.i32()
                for _ in range(2):
                    for _ in answer.each():
                        answer.i32()
                if code == 0 and leader >= 0:
                    leaders[partition] = leader
        return leaders

    def node(self, number: int) -> Connection:
        if number not in self.connections:
            self.connections[number] = Connection(*self.nodes[number], self.timeout)
        return self.connections[number]

    def init_producer_id(self) -> tuple[int, int]:
        until = time.monotonic() + 30
        while True:
            answer = self.first.ask(INIT_PRODUCER_ID, 1, string(None) + struct.pack(">i", 60_000))
            answer.i32()
            code = answer.i16()
            if code != COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > until:
                break
            time.sleep(0.05)
        if code:
            raise KafkaError(code, "InitProducerId")
        return answer.i64(), answer.i16()

    def list_offset(self, connection: Connection, topic: str, partition: int, timestamp: int) -> int:
        body = struct.pack(">ibi", -1, 0, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp)
        answer = connection.ask(LIST_OFFSETS, 2, body)
        answer.i32(), answer.i32(), answer.string(), answer.i32(), answer.i32()
        code, _, offset = answer.i16(), answer.i64(), answer.i64()
        if code:
            raise KafkaError(code, f"ListOffsets {topic}-{partition}")
        return offset


def produce_body(topic: str, partition: int, records: bytes, acks: int = -1) -> bytes:
    """Produce version 7 with one partition."""
    head = string(None) + struct.pack(">hii", acks, 30_000, 1) + string(topic)
    return head + struct.pack(">iii", 1, partition, len(records)) + records


def produce_answer(answer: Reader) -> tuple[int, int]:
    """Error code and base offset of an answer to `produce_body`."""
    answer.i32(), answer.string(), answer.i32(), answer.i32()
    return answer.i16(), answer.i64()


def fetch(connection: Connection, topic: str, partition: int, offset: int, max_wait_ms=0, max_bytes=1 << 20):
    """Fetch version 11: error code, high watermark, record set."""
    body = struct.pack(">iiiibiii", -1, max_wait_ms, 1, max_bytes, 1, 0, -1, 1) + string(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes) + struct.pack(">i", 0) + string("")
    answer = connection.ask(FETCH, 11, body)
    answer.i32()
    code = answer.i16()
    if code:
        raise KafkaError(code, "Fetch")
    answer.i32()
    if not answer.i32():
        return 0, -1, b""
    answer.string(), answer.i32(), answer.i32()
    code, watermark = answer.i16(), answer.i64()
    answer.i64(), answer.i64()
    for _ in answer.each():
        answer.i64(), answer.i64()
    answer.i32()
    return code, watermark, answer.blob()
