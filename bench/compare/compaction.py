"""The figures of log compaction: how fast, for how much CPU, and what a producer notices of it.

Sizes and time are seen from outside (`rillbench settle`: DescribeLogDirs, and the CPU of the process), for both brokers
alike, since each broker's own words count other bytes: Kafka's log-cleaner.log what it read, our log what it rewrote.
"""

import os
import time

from measure import Bench, say
from report import Rounds

RECORD, PER_BATCH, KEYS = 1024, 16, 100_000
# A record of 1 KiB with a key of 10 bytes, and a batch of them, as they stand in a segment.
BATCH = 61 + PER_BATCH * (RECORD + 19)
# Of how long a cleaning took alone: before and in the window in which the producer beside it is measured. It has to end
# before the cleaning does, and with company a cleaning only takes longer.
WARMUP, WINDOW = 0.15, 0.7
SETTINGS = ("log.cleaner.backoff.ms=100",)


def g103(b: Bench):
    """Compaction, and a producer's latency beside it"""
    r = Rounds()
    segment, segments, keys = (16 << 20, 8, KEYS // 10) if b.quick else (64 << 20, 17, KEYS)
    systems = [b.own(name, "compaction", SETTINGS) for name in b.peers("rillway", "kafka")]
    try:
        for system in systems:
            say(f"starting {system.name}")
            system.fresh()
            b.warm(system)
            # The cleaner has to be compiled too.
            if not b.quick:
                fill(b, system, "warm", segment, 8, keys)
                clean(b, system, "warm", note=False)
                b.delete(system, "warm")
        for n in b.rounds("g103"):
            for system in systems:
                turn(b, r, system, f"g103-{n}", segment, segments, keys)
    finally:
        for system in systems:
            system.destroy()
    return [
        r.line("cleaned", "MiB/s"),
        r.line("CPU of cleaning", "CPU-s/GiB"),
        r.line("left of it", "%"),
        r.line("p99 ratio, cleaning / alone", "x", "at most 1.3", at_most=1.3),
        r.line("p99 alone", "us"),
        r.line("p99 while cleaning", "us"),
        r.line("cleaned beside the producer", "MiB/s"),
        r.line("of the producer's time the cleaner ran", "%"),
    ], [
        f"{segments} segments of {segment >> 20} MiB, records of 1 KiB in batches of 16 KiB, {keys:,} keys; from the change of min.cleanable.dirty.ratio until the topic's size has settled",
        "log.cleaner.backoff.ms=100; Kafka reads the log from the page cache, rillway from the disk, and flushes what it cleaned",
        f"the producer: rillbench latency, 1,000 single records per second to another topic, for {WINDOW} of the time that cleaning takes alone",
    ]  # fmt: skip


def turn(b: Bench, r: Rounds, system, topic: str, segment: int, segments: int, keys: int) -> None:
    """One turn: a cleaning by itself, a producer by itself, both together."""
    name = system.name
    fill(b, system, topic, segment, segments, keys)
    f = clean(b, system, topic)
    b.delete(system, topic)
    r.add("cleaned", name, f["mib_per_s"])
    r.add("CPU of cleaning", name, cpu_per_gib(f))
    r.add("left of it", name, 100 * f["bytes_after"] / f["bytes_before"])
    fill(b, system, topic, segment, segments, keys)
    warmup = WARMUP * f["seconds"]
    latency = ["latency", "--topic", f"beside-{topic}", "--warmup", f"{warmup:.3f}", "--duration", f"{WINDOW * f['seconds']:.3f}"]
    before = b.bench(system, latency, note=False)
    cleaning = b.begin(system, settling(topic))
    beside = b.bench(system, latency, note=False)
    f = b.end(cleaning)
    r.add("p99 alone", name, before["latency_us"]["p99"])
    r.add("p99 while cleaning", name, beside["latency_us"]["p99"])
    r.add("p99 ratio, cleaning / alone", name, beside["latency_us"]["p99"] / before["latency_us"]["p99"])
    r.add("cleaned beside the producer", name, f["mib_per_s"])
    begun = beside["primed_at_ms"] / 1000 + warmup
    window = (begun, begun + beside["window"]["seconds"])
    ran = (f["started_at_ms"] / 1000, f["started_at_ms"] / 1000 + f["seconds"])
    r.add("of the producer's time the cleaner ran", name, 100 * covered(window, ran))
    b.delete(system, topic)
    b.delete(system, f"beside-{topic}")


def fill(b: Bench, system, topic: str, segment: int, segments: int, keys: int) -> None:
    """A compacted topic whose cleaner is held back, on a disk that has come to rest."""
    configs = ["cleanup.policy=compact", f"segment.bytes={segment}", "min.cleanable.dirty.ratio=1"]
    arguments = ["--keys", str(keys), "--batch-bytes", f"{PER_BATCH}k", "--in-flight", "64"]
    arguments += [word for config in configs for word in ("--config", config)]
    b.fill(system, topic, str(payload(segment, segments)), arguments)
    os.sync()
    # What is in memory only goes to segments now.
    time.sleep(b.seconds(3))


def settling(topic: str) -> list[str]:
    return ["settle", "--topic", topic, "--config", "min.cleanable.dirty.ratio=0.01", "--timeout", "60"]


def clean(b: Bench, system, topic: str, note: bool = True):
    return b.bench(system, settling(topic), note)


def payload(segment: int, segments: int) -> int:
    """Bytes of values that fill so many segments, and a little: the active segment is never cleaned, so little is in it."""
    return (segment // BATCH * segments + 8) * PER_BATCH * RECORD


def cpu_per_gib(f: dict) -> float:
    """Of what was there before."""
    return (f["broker"]["cpu_user_s"] + f["broker"]["cpu_system_s"]) / (f["bytes_before"] / 2**30)


def covered(window: tuple[float, float], by: tuple[float, float]) -> float:
    """Which part of a window of time another one covers, 0 to 1."""
    common = min(window[1], by[1]) - max(window[0], by[0])
    return min(max(common / (window[1] - window[0]), 0.0), 1.0)
