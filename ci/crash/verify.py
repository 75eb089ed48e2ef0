"""`rillctl log verify` on the data directory of a broker that was just killed, and what a process that hangs is doing."""

import glob
import json
import os
import shutil
import subprocess

# A directory of one point is read in a second; ten times the load of a busy machine is not a minute.
VERIFY_S = 120


class Hangs(Exception):
    pass


class Verifier:
    """What it calls damage is a mistake of the broker or one of its own; both end the run."""

    def __init__(self, folder: str):
        self.rillctl = os.path.join(os.environ["BROKER_BIN"], "rillctl")
        self.folder = folder
        self.checked = 0

    def damages(self, data: str, when: str) -> list[str]:
        if not os.path.exists(os.path.join(data, "storage")):
            return []  # killed before it had an identity
        command = [self.rillctl, "log", "verify", "--json", data]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=VERIFY_S)
        except subprocess.TimeoutExpired:
            stacks(process.pid, os.path.join(self.folder, "verify-hangs.txt"))
            process.kill()
            process.communicate()
            raise Hangs(f"log verify {when} took more than {VERIFY_S} s; see {self.folder}/verify-hangs.txt") from None
        self.checked += 1
        if process.returncode == 0:
            return []
        try:
            found = json.loads(out)["damages"]
        except (ValueError, KeyError):
            return [f"log verify {when} ended with {process.returncode}: {err.decode(errors='replace').strip()}"]
        return [
            f"log verify {when}: {d['file']} at byte {d['position']}: {d['what']}: got {d['got']}, expected {d['expected']}"
            for d in found
        ]


def stacks(pid: int, path: str) -> None:
    """Where each thread of a process stands, in its own code and in the kernel."""
    with open(path, "w", encoding="utf-8", errors="replace") as out:
        for task in sorted(glob.glob(f"/proc/{pid}/task/*")):
            for name in ("comm", "status", "wchan", "syscall", "stack"):
                try:
                    with open(os.path.join(task, name), encoding="utf-8", errors="replace") as file:
                        out.write(f"{task}/{name}: {file.read().strip()}\n")
                except OSError as why:
                    out.write(f"{task}/{name}: {why}\n")
        if shutil.which("gdb"):
            command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"]
            try:
                shown = subprocess.run(command, capture_output=True, timeout=60, check=False)
                out.write(shown.stdout.decode(errors="replace"))
            except subprocess.TimeoutExpired:
                out.write("gdb itself hung\n")
