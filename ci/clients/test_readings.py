"""The judge of what groups read must see what it is there for: each case is a mistake, or is none."""

import unittest

from readings import Readings, Wrong, all_read


class Acknowledged:
    """A source that has written this."""

    def __init__(self, *values: str):
        self.acknowledged = {(0, offset): value for offset, value in enumerate(values)}


class Judge(unittest.TestCase):
    def setUp(self):
        self.readings = Readings()

    def read(self, member: str, *offsets: int) -> None:
        for offset in offsets:
            self.readings.take(member, 0, offset, str(100 + offset))

    def test_a_record_read_by_two_members_is_seen(self):
        self.read("a", 0, 1, 2)
        self.read("b", 2, 3)
        self.assertRaisesRegex(Wrong, "offset 2 by a, then by b", self.readings.none_twice)

    def test_after_a_kill_only_what_was_not_committed_may_come_again(self):
        self.read("a", 0, 1, 2)
        self.readings.commit(0, 2)
        self.readings.forced = True
        self.read("b", 2, 3)
        self.readings.none_twice()
        self.assertEqual(self.readings.allowed, 1)
        self.read("b", 1)
        self.assertRaisesRegex(Wrong, "though 2 was committed", self.readings.none_twice)

    def test_a_commit_that_is_told_late_does_not_take_back_a_later_one(self):
        self.readings.commit(0, 9)
        self.readings.commit(0, 4)
        self.assertEqual(self.readings.committed, {0: 9})

    def test_another_value_at_the_same_offset_is_wrong_for_every_client(self):
        self.readings.forced = self.readings.lenient = True
        self.readings.take("a", 0, 0, "100")
        self.readings.take("b", 0, 0, "101")
        self.assertRaisesRegex(Wrong, "another value", self.readings.none_twice)

    def test_an_acknowledged_record_that_nobody_read_is_missed(self):
        self.read("a", 0, 2)
        with self.assertRaisesRegex(Wrong, r"1 of 3 .*\(0, 1\)"):
            all_read(Acknowledged("100", "101", "102"), self.readings, 0)

    def test_a_record_that_is_not_what_was_written_is_seen(self):
        self.read("a", 0)
        with self.assertRaisesRegex(Wrong, "another value"):
            all_read(Acknowledged("7"), self.readings, 0)

    def test_the_owner_of_a_partition_is_who_read_it_last(self):
        self.read("a", 0)
        self.read("b", 1)
        self.assertEqual(self.readings.owners(100), {0: "b"})
        self.assertEqual(self.readings.owners(101), {})


if __name__ == "__main__":
    unittest.main()
