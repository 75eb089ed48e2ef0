"""The brokers that are compared, and the least broker there could be: started, found by pid, stopped."""

import os
import shutil
import signal
import socket
import subprocess
import time

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
READY_S = 90


class Failed(Exception):
    """Something did not work; the message is for people."""


def free_port() -> int:
    """A port that is free now, with the one above it and the core port. Below the kernel's own range."""
    for port in range(21000 + os.getpid() % 500 * 10, 32000, 10):
        try:
            for other in (port, port + 1, port + 1000):
                with socket.socket() as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind(("127.0.0.1", other))
            if port not in TAKEN:
                TAKEN.add(port)
                return port
        except OSError:
            pass
    raise Failed("found no free port on 127.0.0.1")


TAKEN: set[int] = set()


def until_open(port: int, process: subprocess.Popen | None, seconds: float = READY_S) -> None:
    """Waits until somebody accepts connections."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process is not None and process.poll() is not None:
            raise Failed(f"the broker ended with code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.001)
    raise Failed(f"nobody listens on 127.0.0.1:{port} after {seconds:.0f} s")


class System:
    name = "?"

    def __init__(self, options, folder: str, settings: tuple[str, ...] = ()):
        self.o = options
        # NAME=VALUE, of those that all brokers know by the same name.
        self.settings = settings
        self.folder = os.path.join(folder, self.name)
        self.port = free_port()
        self.pid = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> str:
        return os.path.join(self.folder, "data")

    def fresh(self) -> "System":
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.start()
        return self

    def gone(self) -> None:
        end = time.monotonic() + 60
        while self.pid and os.path.exists(f"/proc/{self.pid}") and time.monotonic() < end:
            time.sleep(0.01)
        self.pid = 0

    def destroy(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        raise NotImplementedError

    def stop(self, how: int = signal.SIGTERM) -> None:
        raise NotImplementedError


class Child(System):
    """A process of ours."""

    process: subprocess.Popen | None = None
    started = 0.0

    def command(self) -> list[str]:
        raise NotImplementedError

    def spawn(self) -> None:
        self.started = time.time()
        with open(os.path.join(self.folder, "log"), "ab") as log:
            command = ["taskset", "-c", str(self.o.broker_cpu), *self.command()]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self.pid = self.process.pid  # taskset replaces itself

    def start(self) -> None:
        self.spawn()
        until_open(self.port, self.process)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None
            self.pid = 0


class Rillway(Child):
    name = "rillway"

    def command(self) -> list[str]:
        return [
            self.o.rillway, "serve", "--data-dir", self.data, "--listen", self.bootstrap,
            "--cores", str(self.o.broker_cpu), "--set", "log.segment.delete.delay.ms=1000",
            *(word for setting in self.settings for word in ("--set", setting)),
        ]  # fmt: skip


class Floor(Child):
    """Answers after one durable write for all that came together."""

    name = "floor"

    def command(self) -> list[str]:
        command = [self.o.rillbench, "floor", "serve", "--listen", self.bootstrap, "--dir", self.folder]
        return [*command, "--cpu", str(self.o.broker_cpu)]


class Echo(Floor):
    """Answers at once."""

    name = "echo"

    def command(self) -> list[str]:
        return [self.o.rillbench, "floor", "serve", "--listen", self.bootstrap, "--cpu", str(self.o.broker_cpu)]


class Kafka(System):
    name = "kafka"
    started = 0.0

    def start(self) -> None:
        self.started = time.time()
        command = [os.path.join(ROOT, "ci/peers/kafka"), "start", str(self.port), self.folder]
        command += ["log.segment.delete.delay.ms=1000", "log.retention.check.interval.ms=5000", *self.settings]
        environment = dict(os.environ, CPUS=str(self.o.broker_cpu))
        log_path = os.path.join(self.folder, "log")
        with open(log_path, "ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        until_open(self.port, None)
        self.opened = time.time()
        if process.wait():
            raise Failed(f"Kafka did not start; see {log_path}")
        with open(os.path.join(self.folder, "pid"), encoding="ascii") as pid:
            self.pid = int(pid.read())

    @property
    def data(self) -> str:
        return os.path.join(self.folder, "logs")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.pid:
            os.kill(self.pid, how)
            self.gone()
