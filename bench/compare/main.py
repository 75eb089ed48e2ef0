"""Measures goals and writes bench/RESULTS.md; see ci/bench."""

import argparse
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import report  # noqa: E402
from goals import GOALS  # noqa: E402
from measure import Bench, say  # noqa: E402
from systems import ROOT, Failed  # noqa: E402

RESULTS = os.path.join(ROOT, "bench", "results")


def main() -> int:
    o = arguments()
    # So that the brokers are stopped when somebody stops us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if o.list:
        for name, goal in GOALS.items():
            print(f"{name:4} {goal.__doc__}")
        return 0
    if o.render:
        write(o)
        return 0
    unknown = [g for g in o.goals if g not in GOALS]
    if unknown:
        say(f"no such goal: {' '.join(unknown)}; there are {' '.join(GOALS)}")
        return 2
    shutil.rmtree(o.folder, ignore_errors=True)
    os.makedirs(o.folder)
    b = Bench(o)
    failed = []
    try:
        for name in o.goals or GOALS:
            try:
                section = measure(b, name)
            except Failed as error:
                say(f"{name} failed: {error}")
                failed.append(name)
                continue
            print("\n".join([f"\n{name}: {section.title}", *report.table(section)]), flush=True)
            if not o.quick:
                report.keep(RESULTS, section)
                write(o)
    finally:
        b.close()
        shutil.rmtree(o.folder, ignore_errors=True)
    if failed:
        say(f"failed: {' '.join(failed)}")
    return 1 if failed else 0


def measure(b: Bench, name: str) -> report.Section:
    goal = GOALS[name]
    b.commands = []
    begun = time.monotonic()
    lines, notes = goal(b)
    rounds = max((len(v) for line in lines for v in line.rounds.values()), default=0)
    notes = [f"{rounds} rounds" if rounds != 1 else "1 round", *notes]
    when = time.strftime("%Y-%m-%d %H:%M")
    notes.append(f"load average afterwards {os.getloadavg()[0]:.1f}; took {time.monotonic() - begun:.0f} s")
    return report.Section(name, goal.__doc__ or name, when, version(b.o), lines, b.commands, notes)


def version(o) -> str:
    said = subprocess.run([o.rillway, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if os.environ.get("BROKER_BIN"):
        # Built somewhere else, from who knows what.
        with open(o.rillway, "rb") as file:
            return f"{said} (a given binary, SHA-256 {hashlib.sha256(file.read()).hexdigest()[:12]})"
    git = ["git", "-C", ROOT, "rev-parse", "--short=10", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return f"{said} ({commit})" if commit else said


def write(o) -> None:
    text = report.document(report.kept(RESULTS), machine(o))
    with open(os.path.join(ROOT, "bench", "RESULTS.md"), "w", encoding="utf-8") as file:
        file.write(text)


def machine(o) -> list[str]:
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kind = subprocess.run(
        ["findmnt", "-no", "FSTYPE,OPTIONS,SOURCE", "-T", os.path.dirname(o.folder)], capture_output=True, text=True, check=False
    ).stdout.split()
    disk = " ".join(kind) or "unknown file system"
    lines = [
        f"{os.cpu_count()} x {model}, {memory:.0f} GiB, {'virtual machine' if virtual() else 'bare metal'}",
        f"Linux {platform.release()}; {disk}",
        f"broker on processor {o.broker_cpu}, generator on {o.client_cpu}; priority {os.getpriority(os.PRIO_PROCESS, 0)}; other programs may have run",
    ]
    if o.kafka:
        lines.append("Apache Kafka 4.2 as `ci/peers/kafka` starts it: one node, heap 1 GiB, shipped thread counts, warmed up")
    return lines


def virtual() -> bool:
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return " hypervisor" in file.read()


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("goals", nargs="*", metavar="GOAL")
    p.add_argument("--list", action="store_true", help="what there is to measure")
    p.add_argument("--render", action="store_true", help="only write RESULTS.md again from bench/results")
    p.add_argument("--quick", action="store_true", help="one short round of each, RESULTS.md untouched")
    p.add_argument("--rounds", type=int, default=3, help="per goal; 7 for figures to quote (default 3)")
    p.add_argument("--no-kafka", dest="kafka", action="store_false", help="only rillway and the floors")
    p.add_argument("--recovery-bytes", default="10G", help="how much g17 writes before it kills")
    p.add_argument("--cold-bytes", default="4G", help="how much g5 and g6 read from disk")
    p.add_argument("--broker-cpu", type=int, default=0)
    p.add_argument("--client-cpu", type=int, default=min(1, (os.cpu_count() or 1) - 1))
    for name in ("rillway", "rillctl", "rillbench", "folder"):
        p.add_argument(f"--{name}", required=True, help=argparse.SUPPRESS)
    return p.parse_args()


if __name__ == "__main__":
    sys.exit(main())
