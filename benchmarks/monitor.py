"""Power of the monitor: number of tasks until an alarm, written into benchmarks/README.md.

    python benchmarks/monitor.py [RUNS]

A share of the tasks has a miss rate of twice epsilon, the others of half epsilon. The numbers are
medians and 90 % quantiles over simulated runs; those of "holds" are exact, as all tasks are equal.
Each setting has its own random numbers, so that it gives the same numbers in both tables.

The last table is about a late change: 300 tasks with normal miss rates of 5 % +- 2 %, then of
15 % +- 4 %. It has medians, 80 % and 90 % quantiles over 1,000 runs for the amber light and the
alarm, and how often the amber light came within 20 tasks, or falsely before the change.
``python benchmarks/monitor.py late`` prints it alone, with the number of tasks for each false amber
light in the worst case.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from metapac._common import Array
from metapac.artefact import replacing
from metapac.betting import RUN_LENGTH, Bets, Watch, exceeds, reaches

EPSILON = ALPHA = 0.1
FALSE_ALARM = 0.01
TIMES = (1, 2, 3, 5)
EXAMPLES = (30, 50, 100, 200, 500)
QUIET = (0, 50, 200)
LONGEST = 1000
RUNS = 10_000
LATE_RUNS = 1000
LATE_QUIET = 300
PAGE = Path(__file__).parent / "README.md"


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


def show(alarms: Array, quantiles: tuple[float, ...] = (0.5, 0.9), longest: int = LONGEST) -> str:
    """Return the median and the 90 % quantile; beyond the longest run there is no number."""
    shown = [np.quantile(alarms, q, method="inverted_cdf") for q in quantiles]
    return " / ".join(f"{value:.0f}" if np.isfinite(value) else f">{longest}" for value in shown)


def tabulate(examples: int, levels: tuple[float, ...]) -> Array:
    """Return at which levels each number of misses shows a task to be bad."""
    return np.array([exceeds(examples, count, EPSILON, levels) for count in range(examples + 1)])


def find_late(examples: int, longest: int = 150) -> tuple[Array, Array, int]:
    """Return tasks from a late change to the amber light and to the alarm; false lights before."""
    rng = np.random.default_rng([examples, LATE_QUIET])
    alarm, amber = Bets(ALPHA, [ALPHA] * LATE_RUNS), Bets(ALPHA, [ALPHA] * LATE_RUNS, 2 * ALPHA)
    shown = [tabulate(examples, bets.levels) for bets in (alarm, amber)]
    found = np.full((2, LATE_RUNS), np.inf)
    false = 0
    for task in range(1 - LATE_QUIET, longest + 1):
        mean, spread = (0.15, 0.04) if task > 0 else (0.05, 0.02)
        missed = rng.binomial(examples, rng.normal(mean, spread, LATE_RUNS).clip(0, 1))
        alarm.settle(shown[0][missed])
        amber.settle(shown[1][missed])
        lit = reaches(amber.recent, RUN_LENGTH)
        amber.restart(lit)
        if task <= 0:
            false += int(lit.sum())
            continue
        for times, now in zip(found, (lit, reaches(alarm.wealth, 1 / FALSE_ALARM)), strict=True):
            times[now & np.isinf(times)] = task
    return found[0], found[1], false


def make_late_table() -> str:
    """Return the table on a late change in Markdown."""
    lines = ["| examples | amber light | within 20 tasks | false before | alarm |"]
    lines.append("|---:|---:|---:|---:|---:|")
    for examples in (30, 143, 500):
        amber, alarm, false = find_late(examples)
        lights, alarms = (show(times, (0.5, 0.8, 0.9), 150) for times in (amber, alarm))
        share = f"{np.mean(amber <= 20):.1%}"
        lines.append(f"| {examples} | {lights} | {share} | {false} | {alarms} |")
    return "\n".join(lines)


def measure_run_length(tasks: int = 1000) -> float:
    """Return the tasks for each false amber light in the worst case, where levels are attained."""
    rng = np.random.default_rng(RUN_LENGTH)
    bets, lights = Bets(ALPHA, [ALPHA] * LATE_RUNS, 2 * ALPHA), 0
    for _ in range(tasks):
        bad = rng.random((LATE_RUNS, 1)) < ALPHA
        bets.settle(bad | (rng.random((LATE_RUNS, 1)) <= bets.levels))
        lit = reaches(bets.recent, RUN_LENGTH)
        bets.restart(lit)
        lights += int(lit.sum())
    return tasks * LATE_RUNS / lights


def make_tables(runs: int) -> str:
    """Return all tables in Markdown."""
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
    return "\n".join([*lines, "", make_late_table()])


def main() -> None:
    """Write the tables into the page."""
    if sys.argv[1:] == ["late"]:
        print(make_late_table())
        print(f"\nTasks for each false amber light in the worst case: {measure_run_length():.0f}")
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    tables = iter(make_tables(runs).split("\n\n"))
    parts = PAGE.read_text(encoding="utf-8").split("<!-- power -->")
    for place in range(1, len(parts), 2):
        parts[place] = f"\n\n{next(tables)}\n\n"
    with replacing(PAGE) as file:
        file.write("<!-- power -->".join(parts))


if __name__ == "__main__":
    main()
