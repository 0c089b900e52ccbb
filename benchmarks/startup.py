"""Start-up: processor seconds to import the package and to start its command line.

    python benchmarks/startup.py

Each row is a process of its own, the least of several; the rounds take turns, so that a busy moment
of the machine does not fall on one row alone. The aim: at most 0.35 s for ``--version`` and
``--help``, and ``import metapac`` at most 1.3 times ``import scipy.special``.
"""

from __future__ import annotations

import subprocess
import sys

ROUNDS = 10
PROGRAMS = {
    "empty program": ["-c", "pass"],
    "import scipy.special": ["-c", "import scipy.special"],
    "import metapac": ["-c", "import metapac"],
    "from metapac import MetaPS": ["-c", "from metapac import MetaPS"],
    "metapac --version": ["-m", "metapac", "--version"],
    "metapac --help": ["-m", "metapac", "--help"],
    "metapac calibrate --help": ["-m", "metapac", "calibrate", "--help"],
}
# A parent that runs one program knows the processor time of its children.
TIMED = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


def seconds(arguments: list[str]) -> float:
    """Return the processor time of one process."""
    run = [sys.executable, "-c", TIMED, *arguments]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    least = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in PROGRAMS.items():
            least[name] = min(least[name], seconds(arguments))
    rival = least["import scipy.special"]
    print("| what | processor time | ratio to scipy.special |\n|---|---:|---:|")
    for name, time in least.items():
        print(f"| {name} | {time:.2f} s | {time / rival:.2f} |")


if __name__ == "__main__":
    main()
