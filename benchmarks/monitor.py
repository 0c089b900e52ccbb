"""Power of the monitor: number of tasks until an alarm, written into docs/monitor.md.

    python benchmarks/monitor.py [RUNS]

A share of the tasks has a miss rate of twice epsilon, the others of half epsilon. The numbers are
medians and 90 % quantiles over simulated runs; those of "holds" are exact, as all tasks are equal.
Each setting has its own random numbers, so that it gives the same numbers in both tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from metapac._common import Array
from metapac.artefact import replacing
from metapac.betting import Bets, Watch, exceeds, reaches

EPSILON = ALPHA = 0.1
FALSE_ALARM = 0.01
TIMES = (1, 2, 3, 5)
EXAMPLES = (30, 50, 100, 200, 500)
QUIET = (0, 50, 200)
LONGEST = 1000
RUNS = 10_000
PAGE = Path(__file__).parent.parent / "docs" / "monitor.md"


def find_alarms(runs: int, examples: int, share: float, quiet: int = 0) -> Array:
    """Return the number of tasks until the alarm in each run, counted from the change, or inf."""
    rng = np.random.default_rng([examples, round(100 * share), quiet])
    bets = Bets(ALPHA, [ALPHA] * runs)
    shown = np.array(
        [exceeds(examples, count, EPSILON, bets.levels) for count in range(examples + 1)]
    )
    alarms = np.full(runs, np.inf)
    for task in range(1, quiet + LONGEST + 1):
        bad = rng.random(runs) < (share if task > quiet else ALPHA / 2)
        missed = rng.binomial(examples, np.where(bad, 2 * EPSILON, EPSILON / 2))
        bets.settle(shown[missed])
        first = reaches(bets.wealth, 1 / FALSE_ALARM) & np.isinf(alarms)
        alarms[first] = task - quiet
    return alarms


def count_to_holds(examples: int, rate: float) -> float:
    """Return how many tasks of one miss rate it takes until the guarantee is confirmed."""
    watch = Watch(EPSILON, ALPHA, FALSE_ALARM)
    for task in range(1, LONGEST + 1):
        watch.add(examples=examples, missed=round(rate * examples))
        if watch.upper <= ALPHA:
            return task
    return np.inf


def show(alarms: Array) -> str:
    """Return the median and the 90 % quantile; beyond the longest run there is no number."""
    shown = [np.quantile(alarms, q, method="inverted_cdf") for q in (0.5, 0.9)]
    return " / ".join(f"{value:.0f}" if np.isfinite(value) else f">{LONGEST}" for value in shown)


def make_tables(runs: int) -> str:
    """Return both tables in Markdown."""
    lines = ["| examples | " + " | ".join(f"{k * ALPHA:.0%} above" for k in TIMES) + " |"]
    lines.append("|---:|" + "---:|" * len(TIMES))
    for examples in EXAMPLES:
        cells = []
        for times in TIMES:
            found = find_alarms(runs, examples, times * ALPHA)
            early = np.mean(np.isfinite(found))
            cells.append(f"{early:.2%} of runs" if times == 1 else show(found))
        lines.append(f"| {examples} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| tasks before | " + " | ".join(f"{k * ALPHA:.0%} above" for k in TIMES[1:]) + " |",
    ]
    lines.append("|---:|" + "---:|" * len(TIMES[1:]))
    for quiet in QUIET:
        cells = [show(find_alarms(runs, 200, k * ALPHA, quiet)) for k in TIMES[1:]]
        lines.append(f"| {quiet} | " + " | ".join(cells) + " |")
    rates = (0.0, 0.02, 0.05)
    lines += ["", "| examples | " + " | ".join(f"{rate:.0%} missed" for rate in rates) + " |"]
    lines.append("|---:|" + "---:|" * len(rates))
    for examples in EXAMPLES:
        counts = [count_to_holds(examples, rate) for rate in rates]
        shown = [f"{n:.0f}" if np.isfinite(n) else f">{LONGEST}" for n in counts]
        lines.append(f"| {examples} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def main() -> None:
    """Write the tables into the page."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    tables = iter(make_tables(runs).split("\n\n"))
    parts = PAGE.read_text(encoding="utf-8").split("<!-- power -->")
    for place in range(1, len(parts), 2):
        parts[place] = f"\n\n{next(tables)}\n\n"
    with replacing(PAGE) as file:
        file.write("<!-- power -->".join(parts))


if __name__ == "__main__":
    main()
