"""Writes the table of clients in README.md from what a run has shown: matrix.py RESULTS.json README.md.

The table stands between two comments; nothing between them is written by hand. A client that was not
run has a row that says so.
"""

import json
import sys

from stock import STOCK

BEGIN, END = "<!-- clients: written by ci/clients/run --matrix -->", "<!-- clients: end -->"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def row(name: str, results: dict) -> str:
    client, seen = STOCK[name], results.get(name)
    if seen is None:
        cells = ("?", client.language, "not run", "not run", "", client.limits)
    else:
        wrote, read = set(seen["writes"]), {c for c, well in seen["reads"].items() if all(well)}
        produces = "yes" if wrote else "no"
        consumes = "yes" if read else "no" if client.reads else "needs a group"
        # One list where both ways agree, as they do for every client that does both.
        codecs = " ".join(c for c in CODECS if c in wrote and (c in read or not client.reads))
        cells = (seen["version"], client.language, produces, consumes, codecs, client.limits)
    return "| " + " | ".join((client.library, *cells)) + " |"


def table(results: dict) -> str:
    head = "| Client | Version | Language | Produces | Consumes | Codecs | What its API cannot say |\n|---|---|---|---|---|---|---|"
    return "\n".join([BEGIN, head, *(row(name, results) for name in STOCK), END])


def main(results: str, readme: str) -> None:
    with open(results, encoding="ascii") as file:
        shown = json.load(file)
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    with open(readme, "w", encoding="utf-8") as file:
        file.write(before + table(shown) + after)


if __name__ == "__main__":
    main(*sys.argv[1:])
