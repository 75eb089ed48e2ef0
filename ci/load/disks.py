"""Checks of disks: full and freed, and failing. ext4 on a loop device, which needs root."""

import fcntl
import os
import struct
import subprocess
import time

from broker import MIB, Broker, Good, Skipped, until

EXT4_IOC_SHUTDOWN = 0x8004587D
KAFKA_STORAGE_ERROR = 56


class Disk:
    """A small ext4 file system, mounted for the time of a check."""

    def __init__(self, folder, size):
        self.image, self.path = os.path.join(folder, "disk.img"), os.path.join(folder, "mnt")
        os.makedirs(self.path)
        with open(self.image, "wb") as image:
            image.truncate(size)
        try:
            self._run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
            self.mount()
        except (OSError, subprocess.CalledProcessError) as why:
            said = getattr(why, "stderr", b"") or str(why).encode()
            raise Skipped(f"no ext4 on a loop device: {said.decode(errors='replace').strip()}") from why

    def _run(self, *command):
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        subprocess.run(command, check=True, capture_output=True, env=dict(os.environ, PATH=path))

    def mount(self):
        self._run("mount", "-o", "loop", self.image, self.path)

    def fill(self):
        """Takes all the room that there is."""
        self.filler = os.open(os.path.join(self.path, "filler"), os.O_RDWR | os.O_CREAT)
        size = 0
        for step in (16 * MIB, MIB, 64 << 10, 4096):
            while True:
                try:
                    os.posix_fallocate(self.filler, size, step)
                    size += step
                except OSError:
                    break

    def free(self):
        os.close(self.filler)
        os.remove(os.path.join(self.path, "filler"))

    def fail(self):
        """From now on every write and flush is EIO."""
        fd = os.open(self.path, os.O_RDONLY)
        fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", 2))
        os.close(fd)

    def drop(self):
        def gone():
            return subprocess.run(["umount", self.path], capture_output=True, check=False).returncode == 0

        if not until(20, gone, 0.05):
            raise RuntimeError(f"{self.path} stays busy")


def full_and_freed(folder):
    disk = Disk(folder, 400 * MIB)
    try:
        broker = Broker(folder, {"log.segment.bytes": 4 * MIB, "log.segment.delete.delay.ms": 0}, disk=disk.path).ready()
        try:
            good = Good(broker)
            good.works()
            refused = 0
            for _ in range(2):
                disk.fill()
                taken = 0
                while (code := good.produce(500_000)) == 0:
                    taken += 1
                    assert taken < 500, "a full disk takes 250 MB"
                assert code == KAFKA_STORAGE_ERROR, f"code {code}, a retriable one is 56"
                for _ in range(20):
                    code = good.produce(500_000)
                    assert code in (0, KAFKA_STORAGE_ERROR), f"code {code}"
                    refused += code != 0
                good.read(0), good.read(good.next - 1)
                disk.free()
                assert until(30, lambda: good.produce(1000) == 0, 0.2), "no record is taken 30 s after there is room"
                good.works()
                lines = len(broker.said().splitlines())
            assert lines < 100, f"{lines} lines"
            assert broker.alive() and broker.stop() == 0, "the same process, and a stop in order"
            return f"{refused} records refused with 56, readers served, taken again when there was room, twice; {lines} lines"
        finally:
            broker.stop(kill=True)
    finally:
        disk.drop()


def failing(folder):
    disk = Disk(folder, 400 * MIB)
    try:
        broker = Broker(folder, disk=disk.path).ready()
        try:
            good = Good(broker)
            good.works()
            acknowledged = good.next
            disk.fail()
            started = time.monotonic()
            try:
                code = good.produce()
                assert code != 0, "a record was acknowledged on a disk that fails"
            except (OSError, EOFError, ValueError):
                pass
            assert until(20, lambda: not broker.alive()), "still running 20 s after EIO"
            took = time.monotonic() - started
            code = broker.process.returncode
            assert code not in (0, None), f"exit code {code}"
            said = broker.said()
            assert "Input/output" in said or "EIO" in said or "os error 5" in said, f"no message: {said[-300:]}"
        finally:
            broker.stop(kill=True)
        disk.drop()
        disk.mount()
        broker = Broker(folder, disk=disk.path).ready()
        try:
            good.connect(broker)
            for offset in range(acknowledged):
                good.read(offset)
        finally:
            broker.stop(kill=True)
        return f"exit code {code} {took:.2f} s after the first EIO, with a message; all {acknowledged} records are there"
    finally:
        disk.drop()


CHECKS = {"disk-full": full_and_freed, "disk-fails": failing}
