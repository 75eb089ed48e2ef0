"""kcat as Debian ships it (1.7.1 with librdkafka 2.0.2), run as a program; commands as in adapter.py.

kcat sets no timestamps, and its options of one run hold for all records of it: records are written in
runs of equal partition and headers.
"""

import dataclasses
import os
import re
import subprocess
import sys
import tempfile

import adapter
import member
import records

# Between records and between key and value: must not occur in the data, and cannot hold a zero byte.
RECORD, KEY = b"\x01<record>\x02", b"\x01<key>\x02"
# One record, with lengths before the bytes; -1 is null. Headers last: they have no length.
END = b"\x01<end>\x02\n"
FORMAT = b"%p %o %T %K %S\\n%k%s%h" + END


class Client:
    def __init__(self, bootstrap: str):
        self.bootstrap = bootstrap

    def kcat(self, *options, data=None, timeout=90) -> bytes:
        command = ["kcat", "-b", self.bootstrap, "-m", "30", *options]
        run = subprocess.run(command, input=data, capture_output=True, timeout=timeout, check=False)
        sys.stderr.buffer.write(run.stderr)
        if run.returncode:
            raise RuntimeError(run.stderr.decode(errors="replace").strip().splitlines()[-1])
        return run.stdout

    def version(self):
        said = subprocess.run(["kcat", "-V"], capture_output=True, check=True, text=True).stdout
        found = re.search(r"Version (\S+) .*librdkafka (\d\S*)", said)
        return [f"{found.group(1)} (librdkafka {found.group(2)})"]

    def create(self, topic, partitions):
        raise adapter.Cannot("kcat creates topics only by naming them")

    def write(self, topic, codec, path):
        runs: list[list[records.Record]] = []
        for r in records.load(path):
            alike = runs and (runs[-1][0].partition, runs[-1][0].headers) == (r.partition, r.headers)
            # With -Z an empty key or value is null, so a run has only empty ones or only nulls.
            if alike and self._style(runs[-1][0]) == self._style(r):
                runs[-1].append(r)
            else:
                runs.append([r])
        written = []
        for run in runs:
            options = ["-P", "-t", topic, "-p", str(run[0].partition), "-z", codec, "-D", RECORD]
            has_keys, nulls = self._style(run[0])
            options += ["-K", KEY] if has_keys else []
            options += ["-Z"] if nulls else []
            for name, value in run[0].headers:
                options += ["-H", name.encode() + b"=" + value]
            data = RECORD.join((r.key + KEY if has_keys else b"") + (r.value or b"") for r in run)
            self.kcat(*options, data=data)
            written += run
        # kcat does not tell offsets; the reader will.
        return [f"{r.partition} {r.offset}" for r in written]

    @staticmethod
    def _style(r: records.Record) -> tuple[bool, bool]:
        return r.key is not None, r.value is None

    def read(self, topic, path, *parts):
        got = []
        for p, (first, end) in adapter.ranges(parts).items():
            options = ["-C", "-t", topic, "-p", str(p), "-o", str(first), "-c", str(end - first), "-q"]
            got += parse(self.kcat(*options, "-f", FORMAT))
        records.save(path, got)

    def offset_for(self, topic, partition, timestamp):
        said = self.kcat("-Q", "-t", f"{topic}:{partition}:{timestamp}").decode()
        offset = int(re.search(r"offset (-?\d+)", said).group(1))
        return ["none" if offset < 0 else offset]

    def bounds(self, topic, partition):
        ends = [self.offset_for(topic, partition, t)[0] for t in (-2, -1)]
        return [f"{ends[0]} {ends[1]}"]

    def out_of_range(self, topic, partition, offset, where):
        reset = {"none": "error"}.get(where, where)
        options = ["-C", "-t", topic, "-p", partition, "-o", offset, "-c", "1", "-e", "-X", f"auto.offset.reset={reset}"]
        if where == "latest":
            # At the end there is nothing to read; kcat says where that is.
            with tempfile.TemporaryFile() as said:
                command = ["kcat", "-b", self.bootstrap, *options]
                subprocess.run(command, stdout=subprocess.DEVNULL, stderr=said, timeout=60, check=False)
                said.seek(0)
                return [int(re.search(rb"Reached end .* at offset (\d+)", said.read()).group(1))]
        try:
            return [parse(self.kcat(*options, "-f", FORMAT))[0].offset]
        except RuntimeError as why:
            if "out of range" in str(why).lower():
                return ["OFFSET_OUT_OF_RANGE"]
            raise

    def transactional(self, timeout_s):
        raise adapter.Cannot("kcat has no transactional producer without -X, and waits there")


def corpus(seed: int) -> list[records.Record]:
    """What kcat can write: no timestamps, no header values with a zero byte, no record of two nulls."""
    usable = (r for r in records.corpus(seed, 0, nulls=False) if all(h[1] and 0 not in h[1] for h in r.headers))
    out, ends, headed = [], [0] * records.PARTITIONS, 0
    for r in usable:
        # A run of the program for every change of headers: 40 are enough.
        headed += bool(r.headers)
        headers = r.headers if headed <= 40 else ()
        out.append(dataclasses.replace(r, offset=ends[r.partition], timestamp=None, headers=headers))
        ends[r.partition] += 1
    return out


def shown(headers) -> tuple:
    """How kcat prints headers, in the form that `parse` gives: as text, cut at a zero byte."""
    text = b",".join(n.encode() + b"=" + (b"NULL" if v is None else v.split(b"\0")[0]) for n, v in headers)
    return (("shown", text),) if headers else ()


def parse(said: bytes) -> list[records.Record]:
    """Takes apart what FORMAT printed; the headers stay the text that kcat made of them."""
    got, at = [], 0
    while at < len(said):
        end = said.index(b"\n", at)
        p, offset, time_ms, key_len, value_len = map(int, said[at:end].split(b" "))
        at = end + 1
        fields = []
        for size in (key_len, value_len):
            fields.append(None if size < 0 else said[at : at + size])
            at += max(size, 0)
        end = said.index(END, at)
        headers = (("shown", said[at:end]),) if end > at else ()
        got.append(records.Record(p, offset, time_ms, *fields, headers))
        at = end + len(END)
    return got


def join(bootstrap: str, wish: member.Wish) -> None:
    """Becomes kcat as a member of a group, which leaves by SIGTERM and tells neither commits nor assignments.

    With -E, or it ends when the broker is away.
    """
    settings = {
        "session.timeout.ms": wish.session,
        "heartbeat.interval.ms": member.HEARTBEAT_MS,
        "topic.metadata.refresh.interval.ms": member.METADATA_MS,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
    }
    if wish.assignor:
        settings["partition.assignment.strategy"] = wish.assignor
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    os.execvp("kcat", ["kcat", "-b", bootstrap, *options, "-E", "-u", "-f", "%p %o %s\\n", "-G", wish.group, *wish.topics])


if __name__ == "__main__":
    if sys.argv[2:3] == ["member"]:
        join(sys.argv[1], member.wish(sys.argv[3:]))
    else:
        adapter.serve(Client(sys.argv[1]))
