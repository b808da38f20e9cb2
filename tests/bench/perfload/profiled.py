"""The controller process under a profile of its processor time: `python -m tests.bench.perfload.profiled FILE`."""

from __future__ import annotations

import cProfile
import sys
import time

from admission.__main__ import main

if __name__ == "__main__":
    watch = cProfile.Profile(time.thread_time)
    try:
        watch.runcall(main, ["controller"])
    finally:
        watch.dump_stats(sys.argv[1])
