"""Checks of what is refused at the start, with a message that says what to do."""

import os
import shutil
import socket

from broker import MIB, Broker, Good, free_port


def refused(folder, words, **options):
    """Starts a broker that must refuse, and say all of these words."""
    broker = Broker(folder, **options)
    try:
        code = broker.process.wait(30)
        said = broker.said()
        assert code != 0, "it ended as if all were well"
        missing = [word for word in words if word not in said]
        assert not missing, f"no word of {missing} in: {said.strip()[-400:]}"
        assert "panicked" not in said, said[-400:]
        return said.strip().splitlines()[-1]
    finally:
        broker.stop(kill=True)


def bad_settings(folder):
    cases = [
        ({"cache.byte": 1}, ("cache.byte", "cache.bytes")),
        ({"no.such.key": 1}, ("no.such.key", "rillway config")),
        ({"cache.bytes": "much"}, ("cache.bytes", "much")),
        ({"cache.bytes": -1}, ("cache.bytes",)),
        ({"num.partitions": 0}, ("num.partitions",)),
        ({"ring.bytes": 1}, ("ring.bytes",)),
        ({"transfer": "fast"}, ("transfer", "splice")),
        ({"message.max.bytes": 1 << 30}, ("message.max.bytes",)),
        ({"default.replication.factor": 3}, ("default.replication.factor",)),
    ]
    for n, (settings, words) in enumerate(cases):
        where = os.path.join(folder, str(n))
        os.makedirs(where)
        refused(where, words, settings=settings)
        assert not os.path.exists(os.path.join(where, "data")), f"{settings}: left something behind"
    return f"{len(cases)} of them, each by name"


def port_taken(folder):
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        return refused(folder, (str(port),), port=port)[-150:]


def ran(folder):
    os.makedirs(folder)
    broker = Broker(folder).ready()
    Good(broker).works()
    assert broker.stop() == 0
    return broker.data


def foreign_files(folder):
    """A ring or a checkpoint that belongs to another data directory."""
    data = ran(os.path.join(folder, "a"))
    found = [os.path.relpath(os.path.join(top, f), data) for top, _, files in os.walk(data) for f in files]
    names = sorted(n for n in found if os.path.basename(n).startswith(("ring", "checkpoint")) or "ring" in n)
    assert names, f"no rings and checkpoints to exchange in {found}"
    said = ""
    for n, name in enumerate(names):
        mine, other = os.path.join(folder, f"mine-{n}"), os.path.join(folder, f"other-{n}")
        shutil.copyfile(os.path.join(ran(other), name), os.path.join(ran(mine), name))
        said = refused(mine, (os.path.basename(name),))
    return f"{', '.join(names)}: {said[-250:]}"


CHECKS = {"bad-settings": bad_settings, "port-taken": port_taken, "foreign-files": foreign_files}
