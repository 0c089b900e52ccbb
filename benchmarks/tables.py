"""Time to calibrate on a Parquet file, compared with a plain GROUP BY and with pandas reading it.

    python benchmarks/tables.py FOLDER [ROWS ...]

Files that do not exist are created in FOLDER: ROWS rows (1e6, 1e7 and 1e8 by default) of 10,000
tasks in random order, a string and a float32 each. Answers are checked before anything is timed.
The candidates take turns; shown are the best and, in brackets, the median of seven rounds, and the
ratio of the best times, by the clock and in processor time. The last column is the time of Spark
for 1e7 rows, if Java is installed. README.md beside this file has the results.
"""

from __future__ import annotations

import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from metapac import Columns, MetaPS, Reading, open_table
from metapac.evidence import ranks_within
from metapac.tables import connect

PROMISE: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
COLUMNS = Columns(task="task", score="score")
ROUNDS = 7
SPARK_ROWS = 10_000_000


def make(connection: Any, path: Path, rows: int) -> None:
    """Write scores between 0 and 1 of tasks with different means."""
    if path.exists():
        return
    connection.raw_sql(
        f"""COPY (
            SELECT format('site-{{:05d}}', t) AS task, (1 / (1 + exp(-latent)))::FLOAT AS score
            FROM (SELECT t, 1.5 + 0.8 * (2 * (hash(t) % 1000003) / 1000003 - 1)
                    + 1.5 * (random() + random() + random() + random() - 2) AS latent
                  FROM (SELECT (hash(i) % 10000)::INTEGER AS t FROM range({rows}) r(i)))
        ) TO '{path}' (FORMAT parquet)"""
    )


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return the time of a call by the clock, and in processor time of all threads."""
    start, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - used


def calibrate(path: Path, connection: Any) -> MetaPS:
    """Return what metapac finds in a file."""
    return MetaPS(**PROMISE).calibrate(open_table(path, COLUMNS, Reading(connection=connection)))


def check(connection: Any, path: Path, rows: int) -> MetaPS:
    """Compare with arrays: all tasks, or a hundred of them if the file is large."""
    result = calibrate(path, connection)
    if rows <= SPARK_ROWS:
        frame = pd.read_parquet(path)
        plain = MetaPS(**PROMISE).calibrate(frame.score.to_numpy(), frame.task)
        order = np.argsort(plain.tasks_)
        expected = plain._evidence.thresholds[order]  # at every level
        np.testing.assert_array_equal(result._evidence.thresholds, expected)
        assert result.threshold_ == plain.threshold_
        assert result._evidence.lowest == plain._evidence.lowest
        return result
    names = result.tasks_[::100].tolist()
    some = pd.read_parquet(path, filters=[("task", "in", names)]).groupby("task").score
    for i, name in enumerate(names):
        scores = np.sort(some.get_group(name).to_numpy())
        expected = scores[ranks_within(np.array([len(scores)]), result.guarantee_)[0]]
        np.testing.assert_array_equal(result._evidence.thresholds[100 * i, 0], expected)
    return result


def peak(connection: Any, path: Path) -> float:
    """Return the peak memory of this process in GiB, after calibrating."""
    calibrate(path, connection)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(connection: Any, path: Path) -> list[tuple[float, float, float]]:
    """Return best, median and best processor time of GROUP BY, metapac and pandas, in turns."""
    query = f"SELECT task, count(*), min(score), max(score) FROM '{path}' GROUP BY task"
    calls = (
        lambda: connection.con.sql(query).to_arrow_table(),
        lambda: calibrate(path, connection),
        lambda: pd.read_parquet(path),
    )
    rounds = [[seconds(call) for call in calls] for _ in range(ROUNDS)]
    columns = (zip(*times, strict=True) for times in zip(*rounds, strict=True))
    return [(min(clock), statistics.median(clock), min(used)) for clock, used in columns]


def with_spark(path: Path, expected: MetaPS) -> float:
    """Return the time of Spark on all cores of this machine, without its start."""
    connection = connect("spark")
    result = calibrate(path, connection)
    np.testing.assert_array_equal(result._evidence.thresholds, expected._evidence.thresholds)
    assert result.threshold_ == expected.threshold_
    return seconds(lambda: calibrate(path, connection))[0]


def main(folder: Path, sizes: list[int]) -> None:
    connection = connect(memory_limit="4GiB", threads=2)
    print("| rows | GROUP BY | metapac | ratio | of processor time | pandas reads | peak | Spark |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for rows in sizes:
        path = folder / f"{rows:.0e}.parquet"
        make(connection, path, rows)
        memory = peak(connection, path)  # before pandas reads anything
        answer = check(connection, path, rows)
        group_by, ours, reading = measure(connection, path)
        spark = with_spark(path, answer) if rows == SPARK_ROWS and shutil.which("java") else None
        cells = (f"{best:.3f} s ({median:.3f})" for best, median, _ in (group_by, ours, reading))
        plain, calibrating, pandas = cells
        print(
            f"| {rows:.0e} | {plain} | {calibrating} | {ours[0] / group_by[0]:.2f} "
            f"| {ours[2] / group_by[2]:.2f} | {pandas} | {memory:.2f} GiB "
            f"| {f'{spark:.1f} s' if spark else ''} |",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(float(word)) for word in sys.argv[2:]] or [10**6, 10**7, 10**8])
