"""The checks of ci/load/run: one line each, then `N passed, M failed`.

    load.py --folder F [--list] [CHECK...]
"""

import argparse
import os
import shutil
import sys
import time

import connections
import disks
import settings
from broker import Skipped

CHECKS = {**connections.CHECKS, **disks.CHECKS, **settings.CHECKS}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("checks", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CHECKS))
        return 0
    unknown = [name for name in options.checks if name not in CHECKS]
    if unknown:
        print(f"no checks {', '.join(unknown)}; there are {', '.join(CHECKS)}")
        return 2
    passed = failed = skipped = 0
    for name in options.checks or CHECKS:
        folder = os.path.join(options.folder, name)
        os.makedirs(folder)
        started = time.monotonic()
        try:
            said = CHECKS[name](folder)
            passed += 1
            print(f"ok      {name}: {said} ({time.monotonic() - started:.0f} s)", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
        except Skipped as why:
            skipped += 1
            print(f"SKIPPED {name}: {why}", flush=True)
        except Exception as why:  # a check that breaks in whatever way has failed
            failed += 1
            print(f"FAILED  {name}: {type(why).__name__}: {why} (kept: {folder})", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
