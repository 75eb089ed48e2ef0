"""The goals: what is sent, what is looked at, what was promised. One function each, named by its number.

A goal returns its lines and its notes. `b.rounds` counts; within a round the systems take turns.
"""

import glob
import os
import shutil
import signal
import statistics
import subprocess
import time

from compaction import g103
from groups import g101, g102
from measure import Bench, per_gib, say, us_per_request, user_per_gib
from report import Line, Rounds
from systems import Failed

FLUSHED = ["--config", "flush.messages=1"]
THREE = ("floor", "rillway", "kafka")


def produce_all(b: Bench, r: Rounds, topic: str, arguments: list[str], names, each, configs=()) -> None:
    """One turn of every system; `each` takes name and figures."""
    for name in b.peers(*names):
        system = b.system(name)
        figures = b.produce(system, topic, [*arguments, *(configs if name == "kafka" else [])])
        each(name, figures)
        b.delete(system, topic)


def g1(b: Bench):
    """Produce, batches of 1 MB"""
    r = Rounds()

    def each(name, f):
        r.add("CPU", name, per_gib(f))
        r.add("of it user", name, user_per_gib(f))
        r.add("rate", name, f["mib_per_s"])

    for n in b.rounds("g1"):
        produce_all(b, r, f"g1-{n}", ["--batch-bytes", "1000k", "--in-flight", "5"], THREE, each)
    return [
        r.line("CPU", "CPU-s/GiB", "at most 0.40; at least 3x under Kafka", at_most=0.40, under=("kafka", 3)),
        r.line("of it user", "CPU-s/GiB"),
        r.line("rate", "MiB/s"),
    ], []


def g2(b: Bench):
    """Produce, batches of 16 KiB over 16 partitions"""
    r = Rounds()
    loads = {
        "a: 1 batch a request, 5 in flight": ["--in-flight", "5"],
        "b: 16 batches a request, 5 in flight": ["--in-flight", "5", "--batches-per-request", "16"],
        "c: 1 batch a request, 64 in flight": ["--in-flight", "64"],
    }
    for n in b.rounds("g2"):
        for load, arguments in loads.items():

            def each(name, f, load=load):
                r.add(f"CPU, {load}", name, per_gib(f))
                r.add(f"rate, {load}", name, f["mib_per_s"])

            arguments = ["--batch-bytes", "16k", "--partitions", "16", *arguments]
            produce_all(b, r, f"g2{load[0]}-{n}", arguments, THREE, each)
    a, bb, c = loads
    return [
        r.line(f"CPU, {a}", "CPU-s/GiB", "at most 2.5; 3x under Kafka", at_most=2.5, under=("kafka", 3)),
        r.line(f"CPU, {bb}", "CPU-s/GiB", "at most 0.8; 3x under Kafka", at_most=0.8, under=("kafka", 3)),
        r.line(f"CPU, {c}", "CPU-s/GiB", "at most 0.8", at_most=0.8),
        *[r.line(f"rate, {load}", "MiB/s") for load in loads],
    ], []


def g3(b: Bench):
    """Produce, one record of 1 KiB per request, 64 in flight"""
    r = Rounds()
    for n in b.rounds("g3"):
        for connections in (1, 16):

            def each(name, f, c=connections):
                r.add(f"CPU, {c} connections", name, us_per_request(f))
                r.add(f"rate, {c} connections", name, f["requests_per_s"])

            arguments = ["--batch-bytes", "1k", "--in-flight", "64", "--connections", str(connections)]
            produce_all(b, r, f"g3-{connections}-{n}", arguments, THREE, each)
    return [
        r.line("CPU, 1 connections", "us/request", "at most 4; 12x under Kafka", at_most=4, under=("kafka", 12)),
        r.line("CPU, 16 connections", "us/request", "at most 2; 12x under Kafka", at_most=2, under=("kafka", 12)),
        r.line("rate, 1 connections", "requests/s"),
        r.line("rate, 16 connections", "requests/s"),
    ], []


def g4(b: Bench):
    """Fetch at the head, from memory"""
    r = Rounds()
    for n in b.rounds("g4"):
        pump = pump_once(b, "send", b.seconds(3))
        r.add("CPU of the sender", "pump", pump["sender_cpu_s_per_gib"])
        r.add("rate", "pump", pump["mib_per_s"])
        for name in b.peers("rillway", "kafka"):
            system = b.system(name)
            topic = f"g4-{n}"
            # Less than the tail cache holds, so it is all in memory on both.
            b.fill(system, topic, "16M" if b.quick else "96M", ["--batch-bytes", "1000k"])
            f = b.consume(system, topic, ["--partition-bytes", "1M"])
            r.add("CPU of the sender", name, per_gib(f))
            r.add("rate", name, f["mib_per_s"])
            b.delete(system, topic)
    return [
        r.line(
            "CPU of the sender", "CPU-s/GiB", "at most 1.3x the pump; not above Kafka",
            ratio_at_most=("pump", 1.3), under=("kafka", 1),
        ),
        r.line("rate", "MiB/s", "at least 0.9 of the pump", over=("pump", 0.9)),
    ], ["pump: send(2) of 256 KiB pieces from memory to a thread on the other processor"]  # fmt: skip


def pump_once(b: Bench, mode: str, seconds: float, file: str | None = None, cold: bool = False):
    arguments = ["floor", "pump", "--mode", mode, "--duration", f"{seconds:g}"]
    arguments += ["--sender-cpu", str(b.o.broker_cpu), "--receiver-cpu", str(b.o.client_cpu)]
    if file:
        arguments += ["--file", file]
    if cold:
        arguments += ["--cold"]
    return b.bench(None, arguments)


def big(b: Bench, name: str) -> str:
    """A topic that is read cold; filled once per run."""
    system = b.system(name)
    if not getattr(system, "big", False):
        b.fill(system, "big", "64M" if b.quick else b.o.cold_bytes, ["--batch-bytes", "1000k"])
        system.big = True
    return "big"


def g5(b: Bench):
    """Catch-up from disk, page cache dropped"""
    r = Rounds()
    names = b.peers("rillway", "kafka")
    for name in names:
        big(b, name)
    file = max(glob.glob(os.path.join(b.system("rillway").data, "big-0", "*.log")), key=os.path.getsize)
    for _ in b.rounds("g5"):
        for mode in ("sendfile", "direct"):
            f = pump_once(b, mode, 60, file, cold=True)
            r.add("CPU of the sender", mode, f["sender_cpu_s_per_gib"])
            r.add("rate", mode, f["mib_per_s"])
        for name in names:
            system = b.system(name)
            b.drop_cache(system)
            f = b.consume(system, "big", ["--once"], 60)
            r.add("CPU of the sender", name, per_gib(f))
            r.add("rate", name, f["mib_per_s"])
    # The better pump is the limit; by rate for the rate, by CPU for the CPU.
    rates, cpus = r.values["rate"], r.values["CPU of the sender"]
    faster = max(("sendfile", "direct"), key=lambda m: statistics.median(rates[m]))
    cheaper = min(("sendfile", "direct"), key=lambda m: statistics.median(cpus[m]))
    return [
        r.line("CPU of the sender", "CPU-s/GiB", f"at most 1.15x {cheaper}", ratio_at_most=(cheaper, 1.15)),
        r.line("rate", "MiB/s", f"at least 0.9 of {faster}", over=(faster, 0.9)),
    ], [f"{b.o.cold_bytes} in one partition", "sendfile and direct: pumps of one segment file (about 1 GiB), dropped from the page cache before"]


def g6(b: Bench):
    """A producer's latency while two readers catch up"""
    r = Rounds()
    names = b.peers("rillway", "kafka")
    for name in names:
        big(b, name)
    for n in b.rounds("g6", 3):
        for name in names:
            system = b.system(name)
            alone = b.latency(system, f"g6-{n}", [], b.seconds(6))
            b.drop_cache(system)
            readers = b.begin(system, ["consume", "--topic", "big", "--readers", "2", "--once", "--duration", f"{b.seconds(8):g}"])
            beside = b.latency(system, f"g6-{n}", ["--warmup", "0.5"], b.seconds(6))
            read = b.end(readers)
            r.add("p99 alone", name, alone["latency_us"]["p99"])
            r.add("p99 beside readers", name, beside["latency_us"]["p99"])
            r.add("p99 ratio", name, beside["latency_us"]["p99"] / alone["latency_us"]["p99"])
            r.add("rate of the readers", name, read["mib_per_s"])
            b.delete(system, f"g6-{n}")
    return [
        r.line("p99 ratio", "x", "at most 1.3; 50x under Kafka", at_most=1.3, under=("kafka", 50)),
        r.line("p99 alone", "us"),
        r.line("p99 beside readers", "us"),
        r.line("rate of the readers", "MiB/s"),
    ], [f"each reader has {b.o.cold_bytes} to read", "producer and readers share the generator's processor, so part of the ratio is theirs"]


def g7(b: Bench):
    """Latency of 1,000 single records per second"""
    r = Rounds()
    for n in b.rounds("g7"):
        for name in b.peers("echo", "floor", "rillway", "kafka"):
            system = b.system(name)
            f = b.latency(system, f"g7-{n}", [], b.seconds(6))
            for q in ("p50", "p99", "p999"):
                r.add(q, name, f["latency_us"][q])
            r.add("generator late by, p99", name, f["delay_us"]["p99"])
            r.add("CPU", name, us_per_request(f))
            b.delete(system, f"g7-{n}")
    return [
        r.line("p50", "us", "at most 1.3x the floor", ratio_at_most=("floor", 1.3)),
        r.line("p99", "us", "at most 1.5x the floor", ratio_at_most=("floor", 1.5)),
        r.line("p999", "us", "below unflushed Kafka", under=("kafka", 1)),
        r.line("CPU", "us/request"),
        r.line("generator late by, p99", "us"),
    ], ["Kafka does not flush here"]


def g8(b: Bench):
    """Durable single records, over partitions and connections"""
    r = Rounds()
    loads = {"a 64x1": (64, 1), "b 1x64": (1, 64), "c 16x64": (16, 64)}
    partitions = (1, 16) if b.quick else (1, 16, 128, 1000)
    for n in b.rounds("g8", 3):
        for count in partitions:
            for load, (connections, flight) in loads.items():
                names = ("rillway", "kafka") if count < 1000 else ("rillway",)
                if count == 1:
                    names = ("floor", *names)
                arguments = ["--batch-bytes", "1k", "--connections", str(connections), "--in-flight", str(flight)]
                arguments += ["--partitions", str(count)]
                for name in b.peers(*names):
                    system = b.system(name)
                    # Whole topics are kept for the three loads: making 1,000 partitions is not what is measured.
                    flushed = FLUSHED if name == "kafka" else []
                    f = b.produce(system, f"g8-{count}-{n}", [*arguments, *flushed], b.seconds(2))
                    r.add(f"{load}, {count} partitions", name, f["requests_per_s"])
            for name in b.peers("floor", "rillway", "kafka"):
                if name == "rillway" or count < 1000:
                    b.delete(b.system(name), f"g8-{count}-{n}")
    lines = []
    for load, target in (("a 64x1", {1: 15, 16: 6, 128: 7}), ("b 1x64", {1: 50, 16: 50, 128: 50}), ("c 16x64", {})):
        for count in partitions:
            checks, text = {}, []
            if count in target:
                checks["over"], text = ("kafka", target[count]), [f"{target[count]}x Kafka"]
            if load[0] == "c":
                checks["at_least"], text = 400_000, ["at least 400,000"]
            lines.append(r.line(f"{load}, {count} partitions", "requests/s", "; ".join(text), **checks))
        flat = [statistics.median(r.values[f"{load}, {c} partitions"]["rillway"]) for c in partitions]
        slope = Line(f"{load}, least / most over partitions", "x", {"rillway": [min(flat) / max(flat)]}, "at least 0.8", at_least=0.8)
        lines.append(slope)
    return lines, ["Kafka with flush.messages=1, measured up to 128 partitions", "CONNECTIONS x IN FLIGHT"]


def g10(b: Bench):
    """The same bytes over more partitions"""
    r = Rounds()
    partitions = (1, 20) if b.quick else (1, 100, 1000)
    for n in b.rounds("g10", 3):
        for count in partitions:
            for name in b.peers("rillway", "kafka"):
                system = b.system(name)
                topic = f"g10-{count}-{n}"
                before = b.bench(None, ["watch", "--pid", str(system.pid), "--duration", "0.1"], note=False)
                # Kafka's first seconds on new partitions are far slower than what follows.
                arguments = ["--batch-bytes", "16k", "--rate", "4672", "--connections", "4", "--in-flight", "1000"]
                arguments += ["--warmup", "1" if b.quick else "6"]
                f = b.produce(system, topic, [*arguments, "--partitions", str(count)])
                r.add(f"CPU, {count} partitions", name, per_gib(f))
                r.add(f"first batch everywhere, {count} partitions", name, f["primed_s"])
                r.add(f"reached, {count} partitions", name, f["mib_per_s"])
                grown = f["window"]["broker"]["rss"] - before["broker"]["rss"]
                r.add(f"RSS grown, {count} partitions", name, grown / 2**20)
                b.delete(system, topic)
    most, some = partitions[-1], partitions[-2]
    own = [r.values[f"CPU, {c} partitions"]["rillway"] for c in (most, some)]
    growth = [m / s for m, s in zip(*own)]
    lines = [Line(f"CPU, {most} over {some} partitions", "x", {"rillway": growth}, "at most 1.5", at_most=1.5)]
    for count in partitions:
        lines.append(r.line(f"CPU, {count} partitions", "CPU-s/GiB"))
        lines.append(r.line(f"reached, {count} partitions", "MiB/s"))
        lines.append(r.line(f"first batch everywhere, {count} partitions", "s"))
        lines.append(r.line(f"RSS grown, {count} partitions", "MiB"))
    return lines, ["73 MiB/s asked for, in batches of 16 KiB", "10,000 partitions are not measured here"]


def g12(b: Bench):
    """Idle cost and start"""
    r = Rounds()
    for _ in b.rounds("g12", 3):
        for name in b.peers("rillway", "kafka"):
            system = b.own(name, "idle").fresh()
            try:
                b.bench(system, ["produce", "--topic", "one", "--bytes", "1M"], note=False)
                system.stop()
                system.started = time.time()
                system.start()
                opened = getattr(system, "opened", time.time())
                r.add("start to first connection", name, (opened - system.started) * 1000)
                time.sleep(1)
                f = b.bench(None, ["watch", "--pid", str(system.pid), "--duration", f"{b.seconds(10):g}"], note=False)
                b.commands = ["rillbench watch --pid PID --duration 10"]
                used, seconds = f["broker"], f["seconds"]
                r.add("CPU", name, used["cpu_exact_s"] * 1000 / seconds)
                r.add("wake-ups", name, used["context_switches"] / seconds)
                r.add("RSS", name, used["rss"] / 2**20)
                r.add("written", name, used["written"] / 1024 / seconds)
            finally:
                system.destroy()
    return [
        r.line("RSS", "MiB", "at most 16, one core", at_most=16),
        r.line("CPU", "ms/s", "at most 2", at_most=2),
        r.line("wake-ups", "1/s", "at most 250", at_most=250),
        r.line("start to first connection", "ms", "at most 50", at_most=50),
        r.line("written", "KiB/s"),
    ], ["fresh process on an existing directory with one topic; nothing connected"]


def g13(b: Bench):
    """io_uring punts, and system calls (G13 and G14)"""
    if os.geteuid() or not shutil.which("perf"):
        raise Failed("counting needs root and perf")
    r = Rounds()
    loads = {"1 MB": ("1000k", "5"), "16 KiB": ("16k", "64"), "1 KiB": ("1k", "64")}
    seconds = 2 if b.quick else 3
    system = b.system("rillway")
    for n in b.rounds("g13", 3):
        for load, (size, flight) in loads.items():
            arguments = ["--batch-bytes", size, "--in-flight", flight, "--partitions", "16", "--tracepoints"]
            topic = f"g13-{size}-{n}"
            f = b.produce(system, topic, arguments, seconds)
            count(r, f"produce, {load}", f)
            if load == "16 KiB":
                f = b.consume(system, topic, ["--last", "64M", "--tracepoints"], seconds)
                count(r, "fetch", f)
            b.delete(system, topic)
    lines = [r.line(f"punts, {load}", "per 1000 requests", "0", at_most=0) for load in [*[f"produce, {l}" for l in loads], "fetch"]]
    lines += [
        r.line("system calls, produce, 1 MB", "per MiB", "at most 6", at_most=6),
        r.line("system calls, produce, 16 KiB", "per MiB", "at most 70", at_most=70),
        r.line("system calls, produce, 1 KiB", "per MiB"),
        r.line("system calls, fetch", "per MiB"),
    ]
    return lines, ["punts: operations that io_uring handed to a worker, fsync left out", "system calls of the whole process"]


def count(r: Rounds, what: str, f: dict) -> None:
    events, seconds = f["window"]["events"], f["window"]["seconds"]
    r.add(f"punts, {what}", "rillway", events["punts"] * seconds * 1000 / max(f["requests"], 1))
    r.add(f"system calls, {what}", "rillway", events["syscalls"] * seconds / max(f["bytes"] / 2**20, 1e-9))


def g17(b: Bench):
    """Start after kill -9 with 1,000 partitions, cold"""
    r = Rounds()
    partitions, size = ("20", "64M") if b.quick else ("1000", b.o.recovery_bytes)
    for _ in b.rounds("g17", 1):
        for name in b.peers("rillway", "kafka"):
            system = b.own(name, "recovery").fresh()
            try:
                b.fill(system, "many", size, ["--partitions", partitions, "--batch-bytes", "64k", "--in-flight", "16"])
                for how, label in ((signal.SIGKILL, "kill -9"), (signal.SIGTERM, "clean stop")):
                    system.stop(how)
                    b.drop_cache(system)
                    say(f"  starting {name} after {label}")
                    r.add(f"until every partition took a batch, after {label}", name, restart(b, system))
            finally:
                system.destroy()
    kill, clean = (f"until every partition took a batch, after {how}" for how in ("kill -9", "clean stop"))
    return [
        r.line(kill, "s", "at most 1; 28x under Kafka", at_most=1, under=("kafka", 28)),
        r.line(clean, "s"),
    ], [f"{size} in {partitions} partitions; measured once; the generator tries to connect from the start on"]


def restart(b: Bench, system) -> float:
    """Seconds from the start of the process until every partition has taken a batch."""
    begun = time.time()
    starter = None
    if system.name == "kafka":
        # Its script waits until it serves, which is more than we wait for.
        import threading

        starter = threading.Thread(target=system.start)
        starter.start()
    else:
        system.spawn()
    # rillbench keeps trying to connect.
    f = b.bench(system, ["produce", "--topic", "many", "--batch-bytes", "1k", "--warmup", "0", "--duration", "0.01", "--timeout", "120"], pid=False)
    if starter:
        starter.join()
    return f["primed_at_ms"] / 1000 - begun


def g18(b: Bench):
    """Bytes to the device per byte produced"""
    r = Rounds()
    sizes = {"1 MB": ("1000k", "5"), "64 KiB": ("64k", "16"), "1 KiB": ("1k", "64")}
    for n in b.rounds("g18", 3):
        for label, (size, flight) in sizes.items():
            for name in b.peers("rillway", "kafka"):
                system = b.system(name)
                topic = f"g18-{n}-{flight}"
                # Longer than the rest, so that what is moved to segments later is in it.
                f = b.produce(system, topic, ["--batch-bytes", size, "--in-flight", flight], b.seconds(5))
                r.add(f"written / produced, {label}", name, f["window"]["broker"]["written"] / f["bytes"])
                b.delete(system, topic)
    return [
        r.line("written / produced, 1 MB", "x", "at most 1.03", at_most=1.03),
        r.line("written / produced, 64 KiB", "x", "at most 1.03", at_most=1.03),
        r.line("written / produced, 1 KiB", "x", "stated"),
    ], ["by /proc/PID/io; for Kafka, whose pages are written later, when they become dirty"]


GOALS = {f.__name__: f for f in (g1, g2, g3, g4, g5, g6, g7, g8, g10, g12, g13, g17, g18, g101, g102, g103)}
