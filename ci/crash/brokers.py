"""Starting and killing the broker under test, and the disk that loses power."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time

from verify import stacks

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
READY_S = 60
# _IOR('X', 125, __u32), and the flag that says: do not even write the journal.
EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2


class DidNotStart(Exception):
    pass


def until(seconds: float, condition, pause: float = 0.005) -> bool:
    """Polls until the condition holds; False when time is up."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


class Rillway:
    """Our own binary, from the folder in BROKER_BIN."""

    quiet_until_synced = False

    def __init__(self, settings: list[str], mutant: str | None):
        self.binary = os.path.join(os.environ["BROKER_BIN"], "rillway")
        self.settings = settings
        self.environment = dict(os.environ)
        if mutant:
            self.environment["RILLWAY_MUTANT"] = mutant
        self.process = None

    def spawn(self, data: str, port: int, cores: str, log: str) -> None:
        command = [self.binary, "serve", "--data-dir", data, "--listen", f"127.0.0.1:{port}", "--cores", cores]
        for setting in self.settings:
            command += ["--set", setting]
        self.log = log
        with open(log, "ab") as out:
            self.start = out.tell()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment, start_new_session=True
            )

    def ready(self) -> None:
        def answered():
            if self.process.poll() is not None:
                raise DidNotStart(f"exit code {self.process.returncode}: {tail(self.log)}")
            with open(self.log, "rb") as log:
                log.seek(self.start)
                return b"ready" in log.read()

        if not until(READY_S, answered):
            stacks(self.process.pid, f"{self.log}.hangs.txt")
            raise DidNotStart(f"not ready after {READY_S} s: {tail(self.log)}; its stacks: {self.log}.hangs.txt")

    def kill(self, how=signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()


class Kafka:
    """Apache Kafka, to show that the harness finds what is known to be there."""

    # Its topics are in the page cache when CreateTopics is answered; the test is of records.
    quiet_until_synced = True

    def __init__(self, settings: list[str], mutant: str | None):
        assert not mutant, "Kafka has no mutants of ours"
        self.pid = 0

    def spawn(self, data: str, port: int, cores: str, log: str) -> None:
        self.log = log
        with open(log, "ab") as out:
            self.starter = subprocess.Popen(self.command(data, port), stdout=subprocess.PIPE, stderr=out, text=True)

    def command(self, data: str, port: int) -> list[str]:
        return [os.path.join(ROOT, "ci/peers/kafka"), "start", str(port), data]

    def ready(self) -> None:
        said = self.starter.communicate()[0]
        if self.starter.returncode:
            raise DidNotStart(f"{said} {tail(self.log)}")
        self.pid = int(said.split()[-1])

    def kill(self, how=signal.SIGKILL) -> None:
        if self.pid:
            os.kill(self.pid, how)
            until(60, lambda: not os.path.exists(f"/proc/{self.pid}"))
            self.pid = 0


def tail(path: str) -> str:
    with open(path, "rb") as file:
        return " | ".join(file.read().decode(errors="replace").strip().splitlines()[-5:])


class Folder:
    """A plain folder: the page cache outlives the process."""

    def __init__(self, base: str):
        self.path = os.path.join(base, "data")

    def renew(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)

    def cut(self, kill) -> None:
        kill()

    def drop(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class NoLoopDevices(Exception):
    pass


class LoopDisk:
    """ext4 on a loop device. A cut keeps what reached the device and loses all else, like a power cut."""

    SIZE = 6 << 30  # sparse: only what is written takes room

    def __init__(self, base: str):
        self.image, self.mount = os.path.join(base, "disk.img"), os.path.join(base, "mnt")
        self.path = os.path.join(self.mount, "data")
        os.makedirs(self.mount, exist_ok=True)
        self.mounted = False
        try:
            self.renew()
        except (OSError, subprocess.CalledProcessError) as why:
            said = getattr(why, "stderr", b"") or str(why).encode()
            raise NoLoopDevices(said.decode(errors="replace").strip()) from why

    def renew(self) -> None:
        self.drop()
        with open(self.image, "wb") as image:
            image.truncate(self.SIZE)
        run("mkfs.ext4", "-q", "-F", self.image)
        self._mount()
        os.makedirs(self.path)
        self.sync()

    def _mount(self) -> None:
        run("mount", "-o", "loop", self.image, self.mount)
        self.mounted = True

    def sync(self) -> None:
        run("sync", "-f", self.mount)

    def cut(self, kill) -> None:
        disk = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(disk, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(disk)
        kill()
        self._unmount()
        self._mount()

    def _unmount(self) -> None:
        # A killed process's requests in flight hold the file system for some milliseconds more.
        def gone():
            return subprocess.run(["umount", self.mount], capture_output=True, check=False).returncode == 0

        if not until(20, gone, 0.02):
            raise RuntimeError(f"{self.mount} stays busy 20 s after the broker was killed")
        self.mounted = False

    def drop(self) -> None:
        if self.mounted:
            self._unmount()
        if os.path.exists(self.image):
            os.remove(self.image)


def run(*command: str) -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    subprocess.run(command, check=True, capture_output=True, env=dict(os.environ, PATH=path))
