"""From the figures of rounds to lines of RESULTS.md: medians, ranges, ratios, verdicts."""

import json
import os
import statistics
from dataclasses import asdict, dataclass, field


@dataclass
class Line:
    """One metric of one goal: values of each round, per system, in one order."""

    what: str
    unit: str
    rounds: dict[str, list[float]]
    target: str = ""
    """The first system's median must be at most (or at least) this."""
    at_most: float | None = None
    at_least: float | None = None
    """Against another system, median of the rounds' ratios: other / own at least, or own / other at most."""
    under: tuple[str, float] | None = None
    over: tuple[str, float] | None = None
    ratio_at_most: tuple[str, float] | None = None


class Rounds:
    """Figures by name and system, one value per round."""

    def __init__(self):
        self.values: dict[str, dict[str, list[float]]] = {}

    def add(self, name: str, system: str, value: float) -> None:
        self.values.setdefault(name, {}).setdefault(system, []).append(value)

    def line(self, name: str, unit: str, target: str = "", **checks) -> Line:
        return Line(name, unit, self.values.get(name, {}), target, **checks)


@dataclass
class Section:
    """What one run of a goal said."""

    goal: str
    title: str
    when: str
    version: str
    lines: list[Line]
    commands: list[str]
    notes: list[str] = field(default_factory=list)


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Round by round; rounds that one of them lacks are left out."""
    return [a / b for a, b in zip(above, below) if b]


def verdict(line: Line) -> str:
    """`met`, `missed` with how far, or nothing when nothing was asked or measured."""
    own = line.rounds.get("rillway") or []
    if not own:
        return ""
    factors = []  # above 1: missed by this factor
    if line.at_most is not None:
        factors.append(_over(statistics.median(own), line.at_most))
    if line.at_least is not None:
        factors.append(_over(line.at_least, statistics.median(own)))
    for bound, turned in ((line.under, True), (line.over, False)):
        if bound and line.rounds.get(bound[0]):
            other = line.rounds[bound[0]]
            got = statistics.median(ratios(other, own) if turned else ratios(own, other))
            factors.append(_over(bound[1], got))
    if line.ratio_at_most and line.rounds.get(line.ratio_at_most[0]):
        got = statistics.median(ratios(own, line.rounds[line.ratio_at_most[0]]))
        factors.append(_over(got, line.ratio_at_most[1]))
    if not factors:
        return ""
    worst = max(factors)
    if worst <= 1:
        return "met"
    return "**missed**" if worst == float("inf") else f"**missed**, {worst:.1f}x"


def _over(value: float, limit: float) -> float:
    if limit == 0:
        return 1.0 if value <= 0 else float("inf")
    return value / limit


def spread(values: list[float]) -> str:
    """Median and range."""
    if not values:
        return "-"
    middle = statistics.median(values)
    if len(values) == 1:
        return number(middle)
    return f"{number(middle)} [{number(min(values))} - {number(max(values))}]"


def number(value: float) -> str:
    """Three digits that matter."""
    if value != value or value in (float("inf"), float("-inf")):
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def table(section: Section) -> list[str]:
    systems = []
    for line in section.lines:
        systems += [s for s in line.rounds if s not in systems]
    out = ["| what | unit | " + " | ".join(systems) + " | against them | target | |"]
    out.append("|---" * (len(systems) + 5) + "|")
    for line in section.lines:
        own = line.rounds.get("rillway") or []
        against = []
        for name, values in line.rounds.items():
            if name != "rillway" and ratios(values, own):
                against.append(f"{name} {spread(ratios(values, own))}x")
        cells = [line.what, line.unit]
        cells += [spread(line.rounds.get(s) or []) for s in systems]
        cells += ["; ".join(against) or "-", line.target or "-", verdict(line)]
        out.append("| " + " | ".join(cells) + " |")
    return out


def summary(sections: list[Section]) -> list[str]:
    out = ["| goal | met | missed |", "|---|---|---|"]
    for section in sections:
        met = [line.what for line in section.lines if verdict(line) == "met"]
        missed = [
            f"{line.what} ({verdict(line).removeprefix('**missed**').strip(', ') or 'not 0'})"
            for line in section.lines
            if "missed" in verdict(line)
        ]
        name = f"[{section.goal.upper()}](#{section.goal}) {section.title}"
        out.append(f"| {name} | {'; '.join(met) or '-'} | {'; '.join(missed) or '-'} |")
    return out


def document(sections: list[Section], machine: list[str]) -> str:
    out = [
        "# Results",
        "",
        "Written by `ci/bench`; do not edit. `ci/bench g1 g3` measures two goals anew and keeps the others.",
        "",
        "Rounds go through the systems in turn (floor, rillway, kafka, and again), so that all see the same machine. The",
        "broker is pinned to one processor, the generator to another. Figures are medians with the range over the rounds;",
        "`against them` is the other system divided by rillway, round by round, again as median and range. CPU is user and",
        "system of the broker's process, io_uring's workers included; what the kernel writes back for Kafka on threads of",
        "its own is in nobody's figure. Rillway flushes every acknowledged record; Kafka does not, unless the line says so.",
        "`floor` is the least broker there could be: a loop that reads, checks checksums, makes one durable write for all",
        "that came together, and answers. `echo` is the same without the write.",
        "",
        "On a shared machine the ratios mean something; absolute rates and latencies describe that machine on that day.",
        "",
        "## Machine",
        "",
        *[f"- {line}" for line in machine],
        "",
        "## Summary",
        "",
        *summary(sections),
    ]
    for section in sections:
        out += ["", f"## {section.goal}", "", f"{section.title}. Measured {section.when} with {section.version}.", ""]
        out += table(section)
        if section.notes:
            out += ["", *[f"- {note}" for note in section.notes]]
        if section.commands:
            out += ["", "```sh", *section.commands, "```"]
    return "\n".join(out) + "\n"


def keep(folder: str, section: Section) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{section.goal}.json"), "w", encoding="utf-8") as file:
        json.dump(asdict(section), file, indent=1)


def kept(folder: str) -> list[Section]:
    """What earlier runs have left, by the goals' numbers."""
    sections = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                data = json.load(file)
            lines = [Line(**{k: tuple(v) if k in PAIRS and v else v for k, v in line.items()}) for line in data["lines"]]
            sections.append(Section(**{**data, "lines": lines}))
    return sorted(sections, key=lambda s: int("".join(c for c in s.goal if c.isdigit()) or 0))


PAIRS = ("under", "over", "ratio_at_most")
