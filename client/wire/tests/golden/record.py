#!/usr/bin/env python3
"""Records the frames that a real client and a real broker exchange, for the test tests/golden.rs.

    record.py --listen 29390 --broker 29392 --client kcat -- kcat -b 127.0.0.1:29390 -L

Listens on --listen, passes everything on to --broker, runs the command, and writes what it saw to
<client>/<api>-v<version>-{request,response}.hex: the content of a frame (without its length) in hexadecimal.
The broker has to advertise the port of --listen, or the client goes around the recorder:

    advertised.listeners=PLAINTEXT://127.0.0.1:29390

Files that exist are kept unless the new frame tells more: the longest up to 4 KiB wins, else the shortest.
Only APIs and versions that the crate knows are written.
"""

import argparse
import pathlib
import socket
import struct
import subprocess
import sys
import threading

APIS = {
    0: ("produce", 0, 12),
    1: ("fetch", 4, 17),
    2: ("list_offsets", 1, 10),
    3: ("metadata", 0, 13),
    10: ("find_coordinator", 0, 6),
    18: ("api_versions", 0, 4),
    19: ("create_topics", 2, 7),
    20: ("delete_topics", 1, 6),
    22: ("init_producer_id", 0, 5),
    23: ("offset_for_leader_epoch", 2, 4),
    32: ("describe_configs", 1, 4),
    33: ("alter_configs", 0, 2),
    37: ("create_partitions", 0, 3),
    44: ("incremental_alter_configs", 0, 1),
    60: ("describe_cluster", 0, 2),
}
LARGE = 4096


class Recorder:
    def __init__(self, directory):
        self.directory = directory
        self.lock = threading.Lock()

    def keep(self, key, version, kind, content):
        name, first, last = APIS.get(key, (None, 0, 0))
        if name is None or not first <= version <= last:
            return
        path = self.directory / f"{name}-v{version}-{kind}.hex"
        with self.lock:
            if path.exists() and not better(content, bytes.fromhex(path.read_text())):
                return
            text = content.hex()
            path.write_text("".join(text[i : i + 96] + "\n" for i in range(0, len(text), 96)))


def better(new, old):
    if len(new) > LARGE or len(old) > LARGE:
        return len(new) < len(old)
    return len(new) > len(old)


def frames(source):
    """The contents of the frames that arrive, until the connection ends."""
    stream = source.makefile("rb")
    while len(length := stream.read(4)) == 4:
        yield stream.read(struct.unpack(">i", length)[0])


def requests(client, broker, waiting, recorder):
    for content in frames(client):
        key, version, correlation = struct.unpack(">hhi", content[:8])
        waiting[correlation] = (key, version)
        recorder.keep(key, version, "request", content)
        broker.sendall(struct.pack(">i", len(content)) + content)
    broker.shutdown(socket.SHUT_WR)


def responses(client, broker, waiting, recorder):
    for content in frames(broker):
        key, version = waiting.pop(struct.unpack(">i", content[:4])[0])
        # A version that the broker does not know is answered in version 0.
        if key == 18 and content[4:6] == b"\0\x23":
            version = 0
        recorder.keep(key, version, "response", content)
        client.sendall(struct.pack(">i", len(content)) + content)
    client.close()


def serve(listener, broker_port, recorder):
    while True:
        client, _ = listener.accept()
        broker = socket.create_connection(("127.0.0.1", broker_port))
        waiting = {}
        for pump in (requests, responses):
            threading.Thread(target=guarded, args=(pump, client, broker, waiting, recorder), daemon=True).start()


def guarded(pump, *arguments):
    try:
        pump(*arguments)
    except OSError:
        pass  # One side has hung up, as clients do.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--broker", type=int, required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    directory = pathlib.Path(__file__).parent / options.client
    directory.mkdir(exist_ok=True)
    listener = socket.create_server(("127.0.0.1", options.listen), backlog=50)
    threading.Thread(target=serve, args=(listener, options.broker, Recorder(directory)), daemon=True).start()
    sys.exit(subprocess.run(options.command, check=False).returncode)


if __name__ == "__main__":
    main()
