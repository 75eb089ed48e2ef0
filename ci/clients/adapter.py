"""The loop that each Python client program runs: a command per line on stdin, an answer on stdout.

    version                           the client's own, as it runs
    create TOPIC PARTITIONS
    write TOPIC CODEC FILE            writes the records of FILE, in order; answers `P O` per record
    read TOPIC FILE P:FIRST:END...    reads these ranges of offsets and writes them to FILE
    offset-for TOPIC P TIMESTAMP      the first offset at or after that time, or `none`
    bounds TOPIC P                    `first end`
    out-of-range TOPIC P OFFSET WHERE WHERE is `none`: the error's name; else the offset read first
    transactional TIMEOUT_S           the error's name

An answer ends with a line `done`, or `failed WHY`; `cannot WHY` means that the client has no such
thing. Consumers are assigned partitions and offsets; nothing commits.
"""

import sys
import traceback


class Cannot(Exception):
    """The client has no such function: reported as a skip by name, not as a failure."""


def serve(client) -> None:
    """Answers commands with the methods of `client` until stdin ends."""
    out = sys.stdout
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            for answer in getattr(client, command.replace("-", "_"))(*arguments) or ():
                out.write(f"{answer}\n")
            out.write("done\n")
        except Cannot as why:
            out.write(f"cannot {why}\n")
        except Exception as why:  # whatever a client throws is the finding
            traceback.print_exc()
            out.write(f"failed {type(why).__name__}: {' '.join(str(why).split())[:300]}\n")
        out.flush()


def ranges(arguments) -> dict[int, tuple[int, int]]:
    """`P:FIRST:END` as a map from partition to its range of offsets."""
    parts = (tuple(map(int, a.split(":"))) for a in arguments)
    return {p: (first, end) for p, first, end in parts if first < end}
