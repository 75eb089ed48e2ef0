"""What producers were told and consumers were shown, and the judgement of a log against it.

One ledger per partition. A batch is known by the CRC of its header, which covers everything that the
producer chose (records, timestamps, producer id, sequence) and nothing that the broker assigns.
"""

import dataclasses


@dataclasses.dataclass
class Sent:
    """A batch that left a producer; it may or may not have arrived."""

    crc: int
    count: int
    data: bytes
    sequence: int


class Ledger:
    def __init__(self, topic: str, partition: int, idempotent: bool):
        self.topic, self.partition, self.idempotent = topic, partition, idempotent
        self.sent: dict[int, int] = {}  # CRC -> number of records
        self.acknowledged: dict[int, tuple[int, int]] = {}  # base offset -> CRC, number of records
        self.shown: dict[int, int] = {}  # base offset -> CRC
        self.shown_end = 0
        self.waiting: list[Sent] = []  # in order of sending, not yet answered
        self.next_sequence = 0
        self.found_at: dict[int, int] = {}  # sequence -> base offset, from the last judgement

    def __str__(self):
        return f"{self.topic}-{self.partition}"

    def acknowledge(self, batch: Sent, base: int) -> str | None:
        """Notes an acknowledgement; says what is wrong with it."""
        self.acknowledged[base] = (batch.crc, batch.count)
        before = self.found_at.get(batch.sequence) if self.idempotent else None
        if before is not None and before != base:
            return f"{self}: a repeated batch was answered with offset {base}, and lies at {before}"
        return None

    def records_acknowledged(self) -> int:
        return sum(count for _, count in self.acknowledged.values())

    def judge(self, first: int, end: int, batches) -> tuple[list[str], int]:
        """Compares a whole log with the ledger: what is wrong, and how many acknowledged records are lost."""
        wrong, lost = [], 0
        if first != 0:
            wrong.append(f"{self}: starts at {first}, and nothing was deleted")
        at, found, sequences = first, {}, {}
        for b in batches:
            if b.base != at or b.count != b.last_delta + 1:
                wrong.append(f"{self}: expected offset {at}, found a batch of {b.count} at {b.base}")
            at = b.base + b.count
            found[b.base] = b
            if b.crc not in self.sent:
                wrong.append(f"{self}: nobody wrote the batch at {b.base}")
            key = b.producer
            if self.idempotent and key in sequences:
                wrong.append(f"{self}: sequence {key[2]} lies at {sequences[key]} and at {b.base}")
            sequences[key] = b.base
        if at != end:
            wrong.append(f"{self}: reading ended at {at}, the broker says {end}")
        for base, (crc, count) in self.acknowledged.items():
            there = found.get(base)
            if there is None or there.crc != crc:
                lost += count
                what = "is gone" if there is None else "has other bytes"
                wrong.append(f"{self}: the acknowledged batch at {base} ({count} records) {what}; the log ends at {end}")
        for base, crc in self.shown.items():
            if base not in found or found[base].crc != crc:
                wrong.append(f"{self}: a consumer was shown a batch at {base} that is no longer there")
        self.found_at = {p[2]: base for p, base in sequences.items()} if self.idempotent else {}
        return wrong, lost
