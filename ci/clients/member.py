"""What a client program does as a member of a group, and what the Python ones share.

    PROGRAM BOOTSTRAP member TOPIC[,TOPIC...] GROUP [assignor=NAME] [instance=ID] [session=MS]

It joins, reads from the earliest record where nothing was committed, commits what it has shown, and says
a line for everything:

    assigned TOPIC:P TOPIC:P...    after each rebalance: all that it has now
    P OFFSET VALUE                 a record, before it is committed
    committed P OFFSET             what the broker acknowledged (a client of one topic)

When stdin ends it leaves the group in good order and ends. Programs whose client does not tell an
assignment or a commit say nothing of it.
"""

import dataclasses
import sys
import threading

# Short, so that a member hears of a rebalance and of new partitions within a second.
HEARTBEAT_MS, METADATA_MS = 500, 1000


@dataclasses.dataclass(frozen=True)
class Wish:
    topics: list[str]
    group: str
    assignor: str = ""  # the client's default
    instance: str = ""
    session: int = 6000


def wish(words: list[str]) -> Wish:
    """From the words after `member`."""
    named = dict(word.split("=", 1) for word in words[2:])
    if "session" in named:
        named["session"] = int(named["session"])
    return Wish(words[0].split(","), words[1], **named)


def say(*words) -> None:
    # One write for the whole line: threads of a client speak at the same time.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def say_assigned(places) -> None:
    """`places` are pairs of topic and partition."""
    say("assigned", *(f"{t}:{p}" for t, p in sorted(places)))


def leave_at_end_of_stdin(act=lambda: None) -> threading.Event:
    """Set when the member is to leave; `act` wakes whoever waits for something else."""
    event = threading.Event()

    def wait():
        sys.stdin.read()
        event.set()
        act()

    threading.Thread(target=wait, daemon=True).start()
    return event
