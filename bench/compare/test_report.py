"""Tests of the arithmetic behind RESULTS.md."""

import tempfile
import unittest

from compaction import BATCH, covered, cpu_per_gib, payload
from measure import generic
from report import Line, Section, document, keep, kept, number, ratios, spread, verdict


def line(own, other=(), **kwargs):
    return Line("x", "us", {"rillway": list(own), "kafka": list(other)}, **kwargs)


class Verdicts(unittest.TestCase):
    def test_a_limit_is_kept_by_the_median_and_missed_by_a_factor(self):
        self.assertEqual(verdict(line([1, 2, 9], at_most=2)), "met")
        self.assertEqual(verdict(line([1, 6, 9], at_most=2)), "**missed**, 3.0x")
        self.assertEqual(verdict(line([50, 40, 60], at_least=100)), "**missed**, 2.0x")

    def test_ratios_are_taken_round_by_round_and_not_of_medians(self):
        own, other = [1, 10, 100], [30, 50, 5000]
        self.assertEqual(ratios(other, own), [30, 5, 50])
        self.assertEqual(verdict(line(own, other, under=("kafka", 30))), "met")
        self.assertEqual(verdict(line(own, other, under=("kafka", 60))), "**missed**, 2.0x")
        self.assertEqual(verdict(line([10, 20], [1, 1], over=("kafka", 15))), "met")
        self.assertEqual(verdict(line([3, 3], [2, 2], ratio_at_most=("kafka", 1.5))), "met")

    def test_every_part_of_a_target_must_be_met(self):
        self.assertEqual(verdict(line([4], [100], at_most=4, under=("kafka", 12))), "met")
        self.assertIn("missed", verdict(line([5], [100], at_most=4, under=("kafka", 12))))

    def test_nothing_measured_or_nothing_asked_is_no_verdict(self):
        self.assertEqual(verdict(line([], at_most=1)), "")
        self.assertEqual(verdict(line([1])), "")
        self.assertEqual(verdict(line([1], under=("kafka", 3))), "")

    def test_zero_is_a_limit(self):
        self.assertEqual(verdict(line([0.0], at_most=0)), "met")
        self.assertEqual(verdict(line([0.1], at_most=0)), "**missed**")


class Printing(unittest.TestCase):
    def test_numbers_have_three_digits(self):
        self.assertEqual([number(v) for v in (12345.6, 123.4, 12.34, 1.234, 0.1234)], ["12,346", "123", "12.3", "1.23", "0.123"])
        self.assertEqual(spread([3, 1, 2]), "2.00 [1.00 - 3.00]")
        self.assertEqual(spread([]), "-")

    def test_a_command_is_shown_without_the_number_of_its_round(self):
        self.assertEqual(generic("rillbench produce --topic g8-128-2 --x 1"), "rillbench produce --topic g8-128 --x 1")
        self.assertEqual(generic("rillbench consume --topic big --once"), "rillbench consume --topic big --once")

    def test_a_section_survives_its_file(self):
        section = Section("g12", "Idle", "today", "v1", [line([1], [5], under=("kafka", 3))], ["rillbench watch"])
        other = Section("g3", "Small", "today", "v1", [line([9], at_most=3)], [])
        with tempfile.TemporaryDirectory() as folder:
            keep(folder, section)
            keep(folder, other)
            again = kept(folder)
        self.assertEqual([s.goal for s in again], ["g3", "g12"])
        self.assertEqual(again[1], section)
        text = document(again, ["a machine"])
        self.assertIn("x (3.0x)", text)
        self.assertIn("kafka 5.00x", text)


class Compaction(unittest.TestCase):
    def test_the_part_of_a_window_in_which_the_cleaner_ran(self):
        self.assertEqual(covered((10, 20), (5, 30)), 1)
        self.assertEqual(covered((10, 20), (5, 15)), 0.5)
        self.assertEqual(covered((10, 20), (18, 19)), 0.1)
        self.assertEqual(covered((10, 20), (20, 30)), 0)
        self.assertEqual(covered((10, 20), (1, 2)), 0)

    def test_cpu_is_counted_by_what_was_there_before(self):
        used = {"cpu_user_s": 1.0, "cpu_system_s": 0.5}
        self.assertEqual(cpu_per_gib({"broker": used, "bytes_before": 2**31, "bytes_after": 2**20}), 0.75)

    def test_a_fill_leaves_next_to_nothing_in_the_active_segment(self):
        for segment, segments in ((16 << 20, 8), (64 << 20, 17)):
            batches = payload(segment, segments) / (16 << 10)
            # A segment takes whole batches, as many as fit.
            behind = batches - segments * (segment // BATCH)
            self.assertEqual(behind, 8)
            self.assertLess(behind * BATCH, segment / 100)


if __name__ == "__main__":
    unittest.main()
