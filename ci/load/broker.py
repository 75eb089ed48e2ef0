"""A broker of its own for each check, and what it costs."""

import os
import random
import resource
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wire  # noqa: E402

MIB = 1 << 20
# Small, so that a leak shows; the sum is what a core may take.
MEMORY = {
    "cache.bytes": 16 * MIB,
    "undestaged.bytes": 16 * MIB,
    "request.memory.bytes": 32 * MIB,
    "transfer.memory.bytes": 16 * MIB,
    "socket.request.max.bytes": 16 * MIB,
}
# What one connection costs: measured at 16 KiB idle, 24 KiB with a part of a request.
CONNECTION = 32 << 10
# Allocator and stacks, and the 64 MiB into which a compressed batch is unpacked where it must be.
SLACK = 96 * MIB


class Skipped(Exception):
    """The machine does not allow this check."""


def until(seconds, condition, pause=0.01):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def free_port():
    for _ in range(50):
        port = random.randrange(12000, 27000)
        try:
            for number in (port, port + 1000, port + 1100):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue
    raise Skipped("no free ports on 127.0.0.1")


class Broker:
    """`rillway serve`, with one core unless a check wants more."""

    def __init__(self, folder, settings=None, descriptors=None, environment=None, port=None, disk=None, cores="0"):
        self.data = os.path.join(disk or folder, "data")
        self.log = os.path.join(folder, "broker.log")
        self.port = port or free_port()
        command = [os.path.join(os.environ["BROKER_BIN"], "rillway"), "serve", "--data-dir", self.data]
        command += ["--listen", f"127.0.0.1:{self.port}", "--cores", cores]
        for key, value in ({"ring.bytes": 16 * MIB} | MEMORY | (settings or {})).items():
            command += ["--set", f"{key}={value}"]

        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        with open(self.log, "ab") as out:
            self.start = out.tell()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=limit,
                start_new_session=True, env=dict(os.environ, **(environment or {})),
            )

    def ready(self):
        until(60, lambda: "ready" in self.said() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(f"did not start: {self.said().strip()[-400:]}")
        self.base = self.rss()
        return self

    def said(self):
        with open(self.log, "rb") as log:
            log.seek(self.start)
            return log.read().decode(errors="replace")

    def lines(self, word):
        return sum(word in line for line in self.said().splitlines())

    def alive(self):
        return self.process.poll() is None

    def _status(self, name):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(l.split()[1]) for l in status if l.startswith(name)) << 10

    def rss(self):
        return self._status("VmRSS:")

    def peak(self):
        return self._status("VmHWM:")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def within(self, connections=0):
        """What it took at most, if that is within what was configured."""
        allowed = self.base + sum(MEMORY.values()) - MEMORY["socket.request.max.bytes"] + SLACK
        allowed += connections * CONNECTION
        peak = self.peak()
        assert peak <= allowed, f"{peak >> 20} MiB of memory, {allowed >> 20} MiB are allowed"
        return f"at most {peak >> 20} MiB of the {allowed >> 20} MiB that the settings allow"

    def connect(self, source=None):
        where = (source, 0) if source else None
        return socket.create_connection(("127.0.0.1", self.port), 30, source_address=where)

    def stop(self, kill=False):
        if self.alive():
            self.process.kill() if kill else self.process.terminate()
        return self.process.wait(30)


class Good:
    """The client that must not notice anything: each of its records gets the next offset and is read back."""

    def __init__(self, broker, topic="good"):
        self.topic, self.next = topic, 0
        wire.Kafka(f"127.0.0.1:{broker.port}").create_topic(topic, 1)
        self.connect(broker)

    def connect(self, broker):
        self.kafka = wire.Kafka(f"127.0.0.1:{broker.port}")
        assert until(10, lambda: self.kafka.leaders(self.topic)), "the topic has no leader"
        self.node = self.kafka.node(self.kafka.leaders(self.topic)[0])

    def produce(self, size=100):
        value = self.next.to_bytes(8, "big") + bytes(size)
        records = wire.batch([value], int(time.time() * 1000))
        answer = self.node.ask(wire.PRODUCE, 7, wire.produce_body(self.topic, 0, records))
        code, base = wire.produce_answer(answer)
        if code == 0:
            assert base == self.next, f"offset {base}, expected {self.next}"
            self.next += 1
        return code

    def read(self, offset):
        code, end, data = wire.fetch(self.node, self.topic, 0, offset)
        assert code == 0, f"Fetch: {code}"
        batch = wire.batches(data)[0]
        assert batch.base == offset and next(batch.values())[:8] == offset.to_bytes(8, "big"), "another record"
        return end

    def works(self, rounds=20):
        for _ in range(rounds):
            code = self.produce()
            assert code == 0, f"Produce: {code}"
            assert self.read(self.next - 1) == self.next
        self.read(0)
