"""Runs rillbench, remembers its command, drops the page cache, and keeps the figures of every round."""

import json
import os
import re
import shlex
import subprocess
import sys
import time

from systems import Echo, Failed, Floor, Kafka, Rillway, System

KINDS = {kind.name: kind for kind in (Rillway, Kafka, Floor, Echo)}


class Bench:
    """What the goals measure with."""

    def __init__(self, options):
        self.o = options
        self.quick = options.quick
        self.running: dict[str, System] = {}
        self.commands: list[str] = []

    # Systems

    def system(self, name: str) -> System:
        """A broker that stays for the whole run, started and warmed up when it is first needed."""
        if name not in self.running:
            say(f"starting {name}")
            system = KINDS[name](self.o, self.o.folder).fresh()
            self.running[name] = system
            self.warm(system)
        return self.running[name]

    def warm(self, system: System) -> None:
        """The JVM compiles what runs often, for long, and on the broker's processor: its first seconds are no measure of it."""
        if system.name != "kafka":
            return
        seconds = 0.5 if self.quick else 6
        for size, flight, connections in (("1k", 64, 16), ("1k", 64, 1), ("16k", 16, 1), ("1000k", 5, 1)):
            load = ["--batch-bytes", size, "--in-flight", str(flight), "--connections", str(connections)]
            self.produce(system, "warm", load, seconds, note=False)
        self.consume(system, "warm", ["--last", "64M"], seconds / 2, note=False)
        self.delete(system, "warm")

    def own(self, name: str, folder: str, settings: tuple[str, ...] = ()) -> System:
        """A broker for one goal, which starts and stops it."""
        return KINDS[name](self.o, os.path.join(self.o.folder, folder), settings)

    def peers(self, *names: str) -> list[str]:
        return [n for n in names if n != "kafka" or self.o.kafka]

    def close(self) -> None:
        for system in self.running.values():
            system.destroy()
        self.running.clear()

    # Measurements

    def bench(self, system: System | None, arguments: list[str], note: bool = True, pid: bool = True):
        """Runs rillbench to its end; its figures."""
        process = self.begin(system, arguments, note, pid)
        return self.end(process)

    def begin(self, system: System | None, arguments: list[str], note: bool = True, pid: bool = True):
        command, shown = list(arguments), list(arguments)
        if system is not None:
            at = ["--bootstrap", system.bootstrap]
            shown += ["--bootstrap", "HOST:PORT"]
            if pid:
                at += ["--broker-pid", str(system.pid)]
                shown += ["--broker-pid", "PID"]
            at += ["--cpu", str(self.o.client_cpu)]
            command += at
        if note:
            line = generic(shlex.join(["rillbench", *shown]).replace(self.o.folder, "DIR"))
            if line not in self.commands:
                self.commands.append(line)
        command = [self.o.rillbench, *command, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.shown = command  # type: ignore[attr-defined]
        return process

    def end(self, process):
        out, err = process.communicate(timeout=1200)
        if process.returncode:
            raise Failed(f"{shlex.join(process.shown)}: {err.strip() or process.returncode}")
        return json.loads(out)

    def produce(self, system: System, topic: str, arguments: list[str], seconds: float | None = None, note: bool = True):
        seconds = self.seconds(3) if seconds is None else seconds
        command = ["produce", "--topic", topic, *arguments, "--duration", f"{seconds:g}"]
        return self.bench(system, command, note)

    def latency(self, system: System, topic: str, arguments: list[str], seconds: float):
        return self.bench(system, ["latency", "--topic", topic, *arguments, "--duration", f"{seconds:g}"])

    def consume(self, system: System, topic: str, arguments: list[str], seconds: float | None = None, note: bool = True):
        seconds = self.seconds(3) if seconds is None else seconds
        command = ["consume", "--topic", topic, *arguments, "--duration", f"{seconds:g}"]
        return self.bench(system, command, note)

    def fill(self, system: System, topic: str, size: str, arguments: list[str]) -> None:
        say(f"  filling {topic} of {system.name} with {size}")
        self.bench(system, ["produce", "--topic", topic, "--bytes", size, *arguments])

    def seconds(self, seconds: float) -> float:
        return 1 if self.quick else seconds

    def delete(self, system: System, topic: str) -> None:
        if system.name in ("floor", "echo"):
            return
        command = [self.o.rillctl, "topic", "delete", "--bootstrap", system.bootstrap, "--topic", topic]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            say(f"  could not delete {topic}: {done.stderr.strip()}")

    def drop_cache(self, *systems: System) -> None:
        """Nothing of these brokers' files stays in the page cache."""
        os.sync()
        for system in systems:
            for folder, _, files in os.walk(system.folder):
                for name in files:
                    try:
                        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                    except OSError:
                        continue
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    os.close(fd)

    def rounds(self, goal: str, most: int = 99):
        """Counts the rounds of a goal, and tells."""
        count = 1 if self.quick else min(self.o.rounds, most)
        for number in range(1, count + 1):
            say(f"{goal}: round {number} of {count}")
            yield number


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def generic(command: str) -> str:
    """Without the number of the round, which is at the end of a topic's or a group's name."""
    return re.sub(r"(--(?:topic|group) \S+)-\d+(?= |$)", r"\1", command)


def cpu(figures: dict) -> float:
    """The broker's CPU seconds, user and system."""
    broker = figures["window"]["broker"]
    return broker["cpu_user_s"] + broker["cpu_system_s"]


def per_gib(figures: dict) -> float:
    return cpu(figures) / (figures["bytes"] / 2**30)


def user_per_gib(figures: dict) -> float:
    return figures["window"]["broker"]["cpu_user_s"] / (figures["bytes"] / 2**30)


def us_per_request(figures: dict) -> float:
    return cpu(figures) * 1e6 / figures["requests"]
