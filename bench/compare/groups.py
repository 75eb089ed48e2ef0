"""The figures of consumer groups: commits, memory, and how soon groups go on after kill -9."""

import re
import signal
import time

from measure import Bench, say
from report import Rounds
from systems import Failed


def g101(b: Bench):
    """Commits of one group of 64 members"""
    r = Rounds()
    for n in b.rounds("g101"):
        for name in b.peers("rillway", "kafka"):
            system = b.system(name)
            arguments = ["commit", "--topic", f"g101-{n}", "--group", f"g101-{n}", "--duration", f"{b.seconds(3):g}"]
            f = b.bench(system, arguments)
            broker = f["window"]["broker"]
            r.add("rate", name, f["commits_per_s"])
            r.add("p99", name, f["latency_us"]["p99"] / 1000)
            r.add("CPU", name, (broker["cpu_user_s"] + broker["cpu_system_s"]) * 1e6 / max(f["commits"], 1))
            b.delete(system, f"g101-{n}")
    return [
        r.line("rate", "commits/s"),
        r.line("p99", "ms"),
        r.line("CPU", "us/commit"),
    ], ["each member has one commit in flight; Kafka's are not flushed"]


def g102(b: Bench):
    """100 groups after kill -9 of their broker"""
    r = Rounds()
    count = 10 if b.quick else 100
    for _ in b.rounds("g102", 3):
        for name in b.peers("rillway", "kafka"):
            system = b.own(name, "resume").fresh()
            try:
                before = rss(system.pid)
                reading = b.begin(system, ["resume", "--groups", str(count), "--timeout", "120"], pid=False)
                told = reading.stderr.readline()
                if "groups read" not in told:
                    raise Failed(f"rillbench resume: {told.strip()}")
                r.add("memory per group of one member", name, (rss(system.pid) - before) / count)
                system.stop(signal.SIGKILL)
                say(f"  starting {name} after kill -9")
                killed = time.monotonic()
                system.start()
                f = b.end(reading)
                r.add("from kill -9 until all read again, at most", name, time.monotonic() - killed)
                r.add("last member reads again after", name, f["all_after_us"] / 1e6)
                r.add("members that had to join anew", name, f["rejoined"])
            finally:
                system.destroy()
    return [
        r.line("last member reads again after", "s"),
        r.line("from kill -9 until all read again, at most", "s"),
        r.line("members that had to join anew", ""),
        r.line("memory per group of one member", "KiB"),
    ], ["the broker is started as soon as it is gone; a member comes back as soon as it can connect"]


def rss(pid: int) -> float:
    """Resident memory of a process, KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return float(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
