"""The judge must see each kind of damage; run by ci/test with the client's Python."""

import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wire  # noqa: E402
from ledger import Ledger, Sent  # noqa: E402


def written(ledger: Ledger, *values: bytes, sequence: int = 0, pid: int = 7) -> Sent:
    data = wire.batch(values, 1000, pid, 0, sequence)
    batch = Sent(struct.unpack_from(">I", data, 17)[0], len(values), data, sequence)
    ledger.sent[batch.crc] = batch.count
    return batch


def log(*batches: Sent) -> list[wire.Batch]:
    """The batches as a broker serves them, with offsets one after another."""
    out, base = b"", 0
    for b in batches:
        out += struct.pack(">q", base) + b.data[8:]
        base += b.count
    return wire.batches(out)


class Judge(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger("t", 0, idempotent=True)
        self.a = written(self.ledger, b"one", b"two")
        self.b = written(self.ledger, b"three", sequence=2)
        self.ledger.acknowledge(self.a, 0)
        self.ledger.acknowledge(self.b, 2)

    def judged(self, first, end, *batches):
        return self.ledger.judge(first, end, log(*batches))

    def test_a_whole_log_has_nothing_wrong(self):
        self.assertEqual(self.judged(0, 3, self.a, self.b), ([], 0))

    def test_a_batch_that_was_sent_and_never_acknowledged_may_be_there_or_not(self):
        c = written(self.ledger, b"four", sequence=3)
        self.assertEqual(self.judged(0, 4, self.a, self.b, c), ([], 0))

    def test_a_short_log_loses_the_acknowledged_records_behind_its_end(self):
        wrong, lost = self.judged(0, 2, self.a)
        self.assertEqual(lost, 1)
        self.assertIn("is gone", wrong[0])

    def test_other_bytes_at_an_acknowledged_offset_are_a_loss(self):
        c = written(self.ledger, b"other", b"bytes", sequence=9)
        wrong, lost = self.judged(0, 3, c, self.b)
        self.assertEqual(lost, 2)
        self.assertIn("other bytes", wrong[0])

    def test_bytes_that_nobody_wrote_are_seen(self):
        stranger = written(Ledger("x", 0, True), b"stranger", sequence=50)
        wrong, lost = self.judged(0, 4, self.a, self.b, stranger)
        self.assertEqual(lost, 0)
        self.assertIn("nobody wrote", wrong[0])

    def test_a_batch_that_lies_twice_is_seen_for_an_idempotent_producer(self):
        wrong, _ = self.judged(0, 4, self.a, self.b, self.b)
        self.assertIn("sequence 2 lies at 2 and at 3", wrong[0])

    def test_a_hole_and_a_start_above_zero_are_seen(self):
        whole = log(self.a, self.b)
        wrong, lost = self.ledger.judge(2, 3, whole[1:])
        self.assertEqual(lost, 2)
        self.assertIn("starts at 2", wrong[0])
        wrong, _ = self.ledger.judge(0, 3, whole[1:])
        self.assertIn("expected offset 0", wrong[0])

    def test_what_a_consumer_was_shown_must_stay(self):
        c = written(self.ledger, b"shown", sequence=3)
        self.ledger.shown[3] = c.crc
        wrong, lost = self.judged(0, 3, self.a, self.b)
        self.assertEqual(lost, 0)
        self.assertIn("was shown", wrong[0])

    def test_a_repeat_that_is_answered_with_another_offset_is_seen(self):
        self.judged(0, 3, self.a, self.b)
        self.assertIn("answered with offset 9", self.ledger.acknowledge(self.b, 9))

    def test_a_broken_crc_is_refused_by_the_reader(self):
        data = bytearray(self.a.data)
        data[-1] ^= 1
        with self.assertRaisesRegex(ValueError, "CRC"):
            wire.batches(bytes(data))


if __name__ == "__main__":
    unittest.main()
