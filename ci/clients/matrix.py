"""Writes the table of clients in README.md from what a run has shown: matrix.py FOLDER README.md, with what
check.py and groups.py left in the folder.

The table stands between two comments; nothing between them is written by hand. A client that was not
run has a row that says so.
"""

import json
import os
import sys

from stock import STOCK

BEGIN, END = "<!-- clients: written by ci/clients/run --matrix -->", "<!-- clients: end -->"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


# As users know them; the default of every client is an eager one, but for those that have nothing else.
EAGER, COOPERATIVE = "eager", "cooperative"


def groups(name: str, shown: dict) -> str:
    """Which kinds of group it was seen in."""
    if not STOCK[name].groups:
        return "none"
    if name not in shown:
        return "not run"
    seen = shown[name]
    if not seen["well"]:
        return "no"
    kinds = dict.fromkeys(COOPERATIVE if "cooperative" in a else EAGER for a in seen["assignors"])
    return ", ".join([*kinds, *(["static"] if seen["static"] else [])])


def row(name: str, results: dict, in_groups: dict) -> str:
    client, seen = STOCK[name], results.get(name)
    if seen is None:
        cells = ("?", client.language, "not run", "not run", groups(name, in_groups), "", client.limits)
    else:
        wrote, read = set(seen["writes"]), {c for c, well in seen["reads"].items() if all(well)}
        produces, consumes = ("yes" if some else "no" for some in (wrote, read))
        codecs = " ".join(c for c in CODECS if c in wrote and c in read)
        cells = (seen["version"], client.language, produces, consumes, groups(name, in_groups), codecs, client.limits)
    return "| " + " | ".join((client.library, *cells)) + " |"


def table(results: dict, in_groups: dict) -> str:
    head = "| Client | Version | Language | Produces | Consumes | Groups | Codecs | What its API cannot say |\n|---|---|---|---|---|---|---|---|"
    return "\n".join([BEGIN, head, *(row(name, results, in_groups) for name in STOCK), END])


def load(path: str) -> dict:
    if not os.path.exists(path):
        return {}
    with open(path, encoding="ascii") as file:
        return json.load(file)


def main(folder: str, readme: str) -> None:
    results, in_groups = (load(os.path.join(folder, name)) for name in ("results.json", "groups.json"))
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(readme, "w", encoding="utf-8") as file:
        file.write(before + table(results, in_groups) + after)


if __name__ == "__main__":
    main(*sys.argv[1:])
