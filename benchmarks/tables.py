"""Calibrating on a Parquet file: beside the plainest GROUP BY, and beside pandas reading the file.

    python benchmarks/tables.py FOLDER [ROWS ...]

Files are made in FOLDER, unless they are there: ROWS rows (1e6, 1e7 and 1e8 by default) of 10,000
tasks in random order, a string and a float32 each. Answers are checked before times are taken, in
turns: best and, in brackets, median of seven. The last column is what Spark takes for 1e7 rows, if
there is Java. Figures are in README.md beside this file.
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

from metapac import MetaPS
from metapac.evidence import ranks_within
from metapac.tables import calibrate_table, connect

PROMISE: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5}
COLUMNS: dict[str, Any] = {"task": "task", "score": "score"}
ROUNDS = 7
SPARK_ROWS = 10_000_000


def make(connection: Any, path: Path, rows: int) -> None:
    """Write scores between 0 and 1, of tasks that differ in how high they tend to be."""
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


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def check(connection: Any, path: Path, rows: int) -> MetaPS:
    """Compare with arrays: all tasks, or a hundred of them where the file is large."""
    found = calibrate_table(path, **COLUMNS, **PROMISE, connection=connection)
    if rows <= SPARK_ROWS:
        frame = pd.read_parquet(path)
        plain = MetaPS(**PROMISE).calibrate(frame.score.to_numpy(), frame.task)
        order = np.argsort(plain.tasks_)
        expected = plain._evidence.thresholds[order]  # at every level
        np.testing.assert_array_equal(found._evidence.thresholds, expected)
        assert found.threshold_ == plain.threshold_
        assert found._evidence.lowest == plain._evidence.lowest
        return found
    names = found.tasks_[::100].tolist()
    some = pd.read_parquet(path, filters=[("task", "in", names)]).groupby("task").score
    for i, name in enumerate(names):
        scores = np.sort(some.get_group(name).to_numpy())
        expected = scores[ranks_within(np.array([len(scores)]), found.guarantee_)[0]]
        np.testing.assert_array_equal(found._evidence.thresholds[100 * i, 0], expected)
    return found


def peak(connection: Any, path: Path) -> float:
    """Return the GiB that this process has held at most, after calibrating."""
    calibrate_table(path, **COLUMNS, **PROMISE, connection=connection)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(connection: Any, path: Path) -> list[tuple[float, float]]:
    """Return best and median of the plainest GROUP BY, of ours, and of pandas, taken in turns."""
    query = f"SELECT task, count(*), min(score), max(score) FROM '{path}' GROUP BY task"
    calls = (
        lambda: connection.con.sql(query).to_arrow_table(),
        lambda: calibrate_table(path, **COLUMNS, **PROMISE, connection=connection),
        lambda: pd.read_parquet(path),
    )
    rounds = [[seconds(call) for call in calls] for _ in range(ROUNDS)]
    return [(min(times), statistics.median(times)) for times in zip(*rounds, strict=True)]


def with_spark(path: Path, expected: MetaPS) -> float:
    """Return the time Spark takes on all cores of this machine, its start not counted."""
    connection = connect("spark")
    found = calibrate_table(path, **COLUMNS, **PROMISE, connection=connection)
    np.testing.assert_array_equal(found._evidence.thresholds, expected._evidence.thresholds)
    assert found.threshold_ == expected.threshold_
    return seconds(lambda: calibrate_table(path, **COLUMNS, **PROMISE, connection=connection))


def main(folder: Path, sizes: list[int]) -> None:
    connection = connect(memory_limit="4GiB", threads=2)
    print("| rows | GROUP BY | ours | ratio | pandas reads | peak memory of ours | Spark |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for rows in sizes:
        path = folder / f"{rows:.0e}.parquet"
        make(connection, path, rows)
        memory = peak(connection, path)  # before pandas reads anything
        answer = check(connection, path, rows)
        plainest, ours, reading = measure(connection, path)
        spark = with_spark(path, answer) if rows == SPARK_ROWS and shutil.which("java") else None
        cells = (f"{best:.3f} s ({median:.3f})" for best, median in (plainest, ours, reading))
        group_by, calibrating, pandas = cells
        print(
            f"| {rows:.0e} | {group_by} | {calibrating} | {ours[0] / plainest[0]:.2f} | {pandas} "
            f"| {memory:.2f} GiB | {f'{spark:.1f} s' if spark else ''} |",
            flush=True,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(float(word)) for word in sys.argv[2:]] or [10**6, 10**7, 10**8])
