#!/usr/bin/env python3
"""From which size on is a batch worth a write of its own? (kernel-notes/05-extents.md)

One broker for each setting of extent.bytes, pinned to the first processor; batches of each size go to all of them in turn.

    cargo build --release --package rillway --package rillway-tools --package rillway-bench
    bench/compare/extents.py [--bin target/release] [--folder DIR] [--rounds 2]
"""

import argparse
import json
import os
import shutil
import signal
import subprocess

from systems import ROOT, free_port, until_open

SETTINGS = [0, 16 << 10, 64 << 10, 128 << 10, 256 << 10]
SIZES = {"16k": 16 << 10, "64k": 64 << 10, "128k": 128 << 10, "256k": 256 << 10, "1000k": 1000 << 10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "target", "release"))
    parser.add_argument("--folder", default=os.path.join(ROOT, "target", "extents"))
    parser.add_argument("--rounds", type=int, default=2)
    o = parser.parse_args()
    shutil.rmtree(o.folder, ignore_errors=True)
    brokers = {setting: start(o, setting) for setting in SETTINGS}
    try:
        print("| batch | extent.bytes | CPU-s/GiB | MiB/s | written / produced | p50 ms | p99 ms |")
        print("|---|---|---|---|---|---|---|")
        for round_ in range(o.rounds):
            for size, size_bytes in SIZES.items():
                # A larger setting than the batch is the same as none.
                for setting in (s for s in SETTINGS if s <= size_bytes):
                    measure(o, f"r{round_}-{size}", size, setting, *brokers[setting])
    finally:
        for process, _ in brokers.values():
            process.send_signal(signal.SIGKILL)


def start(o, setting: int) -> tuple[subprocess.Popen, int]:
    port = free_port()
    folder = os.path.join(o.folder, str(setting))
    command = ["taskset", "-c", "0", os.path.join(o.bin, "rillway"), "serve", "--data-dir", folder, "--cores", "0"]
    command += ["--listen", f"127.0.0.1:{port}", "--set", f"extent.bytes={setting}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_open(port, process)
    return process, port


def measure(o, topic: str, size: str, setting: int, process: subprocess.Popen, port: int) -> None:
    where = ["--bootstrap", f"127.0.0.1:{port}", "--topic", topic]
    in_flight = "5" if size == "1000k" else "16"
    command = [os.path.join(o.bin, "rillbench"), "produce", "--json", "--cpu", "1", *where]
    command += ["--broker-pid", str(process.pid), "--partitions", "4", "--batch-bytes", size]
    command += ["--in-flight", in_flight, "--duration", "2"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = json.loads(said.strip().splitlines()[-1])
    broker, late = result["window"]["broker"], result["latency_us"]
    cpu = broker["cpu_exact_s"] / (result["bytes"] / 2**30)
    written = broker["written"] / result["bytes"]
    row = [size, setting or "off", f"{cpu:.2f}", f"{result['mib_per_s']:.0f}", f"{written:.2f}"]
    row += [f"{late['p50'] / 1000:.1f}", f"{late['p99'] / 1000:.1f}"]
    print(f"| {' | '.join(str(cell) for cell in row)} |", flush=True)
    delete = [os.path.join(o.bin, "rillctl"), "topic", "delete", *where]
    subprocess.run(delete, capture_output=True, check=False)


if __name__ == "__main__":
    main()
