"""Checks of connections: many, silent, garbled, greedy, and more than there are descriptors."""

import os
import random
import resource
import select
import struct
import time

from broker import MIB, Broker, Good, Skipped, until

import wire

MANY = 10_000


def running(check, **options):
    """A check with a broker of its own, which must be alive at its end and stop in order."""

    def checked(folder):
        broker = Broker(folder, **options).ready()
        try:
            said = check(broker)
            assert broker.alive(), "the broker has ended"
            assert broker.stop() == 0, "a stop in order"
            return said
        finally:
            broker.stop(kill=True)

    return checked


def crowd(broker, count, first=b""):
    """So many connections, from several addresses of this machine, each with the same first bytes."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < count + 200:
        raise Skipped(f"{soft} descriptors are allowed, {count + 200} are needed (ulimit -n)")
    out = []
    for n in range(count):
        one = broker.connect(f"127.0.0.{2 + n % 8}")
        if first:
            one.sendall(first)
        out.append(one)
    return out


def leave(broker, sockets, before):
    for one in sockets:
        one.close()
    assert until(20, lambda: broker.descriptors() <= before + 4), (
        f"{broker.descriptors()} descriptors, {before} before"
    )


@running
def idle(broker):
    good = Good(broker)
    before = broker.descriptors()
    sockets = crowd(broker, MANY)
    good.works()
    assert until(20, lambda: broker.descriptors() >= before + MANY), "all of them were taken"
    cost = broker.within(MANY)
    leave(broker, sockets, before)
    good.works()
    return f"{MANY} connections that say nothing; {cost}"


@running
def half_open(broker):
    good = Good(broker)
    before = broker.descriptors()
    # A request of 16 MB is claimed by each, and seven bytes of it come.
    sockets = crowd(broker, MANY, struct.pack(">i", 15 << 20) + b"\x00\x03\x00")
    good.works()
    cost = broker.within(MANY)
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLIN)

    def all_closed():
        return len(poll.poll(0)) == MANY

    assert until(60, all_closed, 0.5), f"{len(poll.poll(0))} of {MANY} were closed for want of progress"
    ended = broker.lines("WARN")
    assert 1 <= ended <= 50, f"{ended} lines about {MANY} connections"
    leave(broker, sockets, before)
    good.works()
    return f"{MANY} claims of 15 MiB, closed after their time; {cost}; {ended} lines"


@running
def garbage(broker):
    good = Good(broker)
    draw = random.Random(7)
    bad = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 16 * MIB + 1),
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
        struct.pack(">ihhih", 10, 3, 1, 1, 32767),
        b"\xff" + draw.randbytes(100),
    ]
    for n in range(1000):
        one = broker.connect()
        one.sendall(bad[n % len(bad)])
        one.settimeout(20)
        try:
            assert one.recv(10) == b"", f"an answer to {bad[n % len(bad)]!r}"
        except ConnectionResetError:
            pass
        one.close()
        if n % 100 == 0:
            good.works(1)
    lines = broker.lines("WARN")
    assert 1 <= lines <= 200, f"{lines} lines about 1000 connections"
    return f"1000 connections closed, {lines} lines; {broker.within()}"


@running
def pipeline(broker):
    good = Good(broker)
    one = wire.Connection("127.0.0.1", broker.port)
    good.kafka.create_topic("piped", 1)
    assert until(10, lambda: good.kafka.leaders("piped"))
    for n in range(1000):
        one.send(wire.PRODUCE, 7, wire.produce_body("piped", 0, wire.batch([str(n).encode()], 1)))
    for n in range(1000):
        code, base = wire.produce_answer(one.receive())
        assert (code, base) == (0, n), f"answer {n}: {code}, offset {base}"
    good.works()
    return f"1000 requests before the first answer is read, answered in order; {broker.within()}"


def fetch_body(topic, offset, size):
    body = struct.pack(">iiiibiii", -1, 0, 1, size, 1, 0, -1, 1) + wire.string(topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, offset, -1, size) + struct.pack(">i", 0)
    return body + wire.string("")


@running
def slow_readers(broker):
    good = Good(broker)
    for _ in range(100):
        assert good.produce(900_000) == 0
    readers = []
    for n in range(200):
        one = wire.Connection("127.0.0.1", broker.port)
        for _ in range(20):
            one.send(wire.FETCH, 11, fetch_body("good", n % 90, 50 * MIB))
        readers.append(one)
    good.works()
    cost = broker.within(200)
    # Those that go on get what they asked for.
    batch = wire.batches(first_records(readers[7]))[0]
    assert batch.base == 7, f"offset {batch.base}"
    for one in readers:
        one.close()
    good.works()
    return f"200 readers ask for 200 GB and read nothing; {cost}"


def first_records(connection):
    answer = connection.receive()
    answer.i32(), answer.i16(), answer.i32(), answer.i32()
    answer.string(), answer.i32(), answer.i32(), answer.i16(), answer.i64(), answer.i64(), answer.i64()
    for _ in answer.each():
        answer.i64(), answer.i64()
    answer.i32()
    return answer.blob()


@running
def fast_producers(broker):
    good = Good(broker)
    good.kafka.create_topic("flood", 1)
    assert until(10, lambda: good.kafka.leaders("flood"))
    body = wire.produce_body("flood", 0, wire.batch([bytes(900_000)], 1))
    request = struct.pack(">hhi", wire.PRODUCE, 7, 1) + wire.string("flood") + body
    frame = struct.pack(">i", len(request)) + request
    senders = []
    for _ in range(16):
        one = broker.connect()
        one.setblocking(False)
        senders.append([one, b""])
    sent, end = 0, time.monotonic() + 10
    while time.monotonic() < end and sent < 2 << 30:
        _, ready, _ = select.select([], [s[0] for s in senders], [], 1)
        for sender in senders:
            if sender[0] in ready:
                rest = sender[1] or frame
                n = sender[0].send(rest)
                sent, sender[1] = sent + n, rest[n:]
    good.works()
    cost = broker.within(16)
    for sender in senders:
        sender[0].close()
    good.works()
    return f"16 producers, {sent >> 20} MiB, and none reads an answer; {cost}"


@running
def bombs(broker):
    """What unpacks to 65 MB, where the broker has to look inside (a largest timestamp that is unset)."""
    import gzip
    import crc32c

    good = Good(broker)
    payload = gzip.compress(bytes(80 * MIB))
    after = struct.pack(">hiqqqhii", 1, 0, 1000, -1, -1, -1, -1, 1) + payload
    batch = struct.pack(">qiibI", 0, 9 + len(after), 0, 2, crc32c.crc32c(after)) + after
    clients = [wire.Connection("127.0.0.1", broker.port) for _ in range(50)]
    for one in clients:
        one.send(wire.PRODUCE, 7, wire.produce_body("good", 0, batch))
    for one in clients:
        code, _ = wire.produce_answer(one.receive())
        assert code == 10, f"code {code}, MESSAGE_TOO_LARGE is 10"
    good.works()
    return f"50 of {len(batch)} bytes that unpack to 80 MiB are refused; {broker.within(50)}"


def waiting(broker):
    good = Good(broker)
    assert good.produce() == 0
    clients, greedy = [], []
    for n in range(200):
        # Every other one wants more than there is, at one node or the other.
        one = wire.Connection("127.0.0.1", broker.port + 1000 + 100 * (n % 2))
        body = struct.pack(">iiiibiii", -1, 60_000, MIB, MIB, 1, 0, -1, 1) + wire.string("good")
        body += struct.pack(">iiiqqi", 1, 0, -1, 0, -1, MIB) + struct.pack(">i", 0) + wire.string("")
        one.send(wire.FETCH, 11, body)
        greedy.append(one)
        one = wire.Connection("127.0.0.1", broker.port + 1000 + 100 * (n % 2))
        body = struct.pack(">iiiibiii", -1, 60_000, 1, MIB, 1, 0, -1, 1) + wire.string("good")
        body += struct.pack(">iiiqqi", 1, 0, -1, 1, -1, MIB) + struct.pack(">i", 0) + wire.string("")
        one.send(wire.FETCH, 11, body)
        clients.append(one)
    time.sleep(1)
    before = broker.cpu()
    time.sleep(3)
    used = broker.cpu() - before
    assert used < 1, f"{used:.1f} s of a processor in 3 s of waiting"
    assert good.produce() == 0
    for one in clients:
        assert wire.batches(first_records(one))[0].base == 1
    return f"400 fetches wait for 3 s at {used / 3:.1%} of a processor, and are woken by one record"


def descriptors(broker):
    good = Good(broker)
    good.works()
    limit = 256
    crowd_of = []
    for _ in range(limit + 100):
        try:
            one = broker.connect()
            crowd_of.append(one)
        except OSError:
            break
    time.sleep(1)
    good.works()
    lines = len(broker.said().splitlines())
    assert lines < 200, f"{lines} lines"
    for one in crowd_of:
        one.close()

    def welcome():
        try:
            wire.Kafka(f"127.0.0.1:{broker.port}", 2).leaders("good")
            return True
        except (OSError, ValueError):
            return False

    assert until(30, welcome, 0.2), "no new connection is served after the others left"
    good.works()
    return f"{len(crowd_of)} connections at a limit of {limit} descriptors; served again after they left; {lines} lines"


def partitions_beyond_descriptors(folder):
    """More partitions with records than descriptors: what is too much is refused, what there was stays writable."""
    broker = Broker(folder, descriptors=256).ready()
    try:
        good = Good(broker)
        good.works()
        good.kafka.create_topic("wide", 400)
        assert until(20, lambda: len(good.kafka.leaders("wide")) == 400)
        written = refused = 0
        for partition in range(400):
            body = wire.produce_body("wide", partition, wire.batch([b"x" * 100], 1))
            code, _ = wire.produce_answer(good.node.ask(wire.PRODUCE, 7, body))
            written, refused = written + (code == 0), refused + (code != 0)
        time.sleep(3)
        assert broker.alive(), f"the broker has ended: {broker.said().strip()[-300:]}"
        good.works()
        lines = len(broker.said().splitlines())
        assert lines < 100, f"{lines} lines"
        return f"400 partitions at a limit of 256 descriptors: {written} written, {refused} refused, the first goes on; {lines} lines"
    finally:
        broker.stop(kill=True)


def clock_steps(folder):
    """The wall clock goes an hour back and two forth while fetches wait. A library between the broker and libc does it."""
    import shutil
    import subprocess

    compiler = shutil.which("cc")
    if not compiler:
        raise Skipped("no C compiler for the library that moves the clock")
    library, offset = os.path.join(folder, "clock.so"), os.path.join(folder, "offset")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    with open(offset, "wb") as file:
        file.write(struct.pack("<q", 0))

    def step(seconds):
        with open(offset, "r+b") as file:
            file.write(struct.pack("<q", seconds))

    broker = Broker(folder, environment={"LD_PRELOAD": library, "CLOCK_OFFSET": offset}).ready()
    try:
        good = Good(broker)
        good.kafka.create_topic("stamped", 1, {"message.timestamp.type": "LogAppendTime"})
        assert until(10, lambda: good.kafka.leaders("stamped"))

        def stamp():
            body = wire.produce_body("stamped", 0, wire.batch([b"x"], 1))
            answer = good.node.ask(wire.PRODUCE, 7, body)
            answer.i32(), answer.string(), answer.i32(), answer.i32(), answer.i16(), answer.i64()
            return answer.i64() / 1000 - time.time()

        for seconds in (0, -3600, 7200, 0):
            waiting_one = wire.Connection("127.0.0.1", broker.port)
            body = struct.pack(">iiiibiii", -1, 2000, 1, MIB, 1, 0, -1, 1) + wire.string("good")
            body += struct.pack(">iiiqqi", 1, 0, -1, good.next, -1, MIB) + struct.pack(">i", 0) + wire.string("")
            waiting_one.send(wire.FETCH, 11, body)
            time.sleep(0.2)
            started = time.monotonic()
            step(seconds)
            moved = stamp()
            assert abs(moved - seconds) < 60, f"the clock moved by {moved:.0f} s, not {seconds}"
            waiting_one.receive()
            waited = time.monotonic() - started
            assert 1 < waited < 30, f"a wait of 2 s took {waited:.1f} s"
            assert good.produce() == 0 and good.read(good.next - 1) == good.next
        assert broker.alive() and broker.stop() == 0
        return "an hour back, two forth, and back: waits end on time, appends go on"
    finally:
        broker.stop(kill=True)


CHECKS = {
    "idle": idle,
    "half-open": half_open,
    "garbage": garbage,
    "pipeline": pipeline,
    "slow-readers": slow_readers,
    "fast-producers": fast_producers,
    "bombs": bombs,
    "waiting": running(waiting, cores="0,1"),
    "descriptors": running(descriptors, descriptors=256),
    "partitions": partitions_beyond_descriptors,
    "clock": clock_steps,
}
