"""A report on many labelled tasks of 100 examples: processor seconds, beside those of evaluate.

    python benchmarks/report.py [TASKS ...]

The aim: linear in the number of tasks, and 100,000 of them in at most 10 s. The number of misses is
compared with NumPy's, and the worst task has to be in the report.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from metapac import Columns, MetaPS, evaluate, open_table
from metapac.report import report

SIZE = 100


def write(path: Path, tasks: int, prefix: str) -> NDArray[np.float32]:
    """Write a table of tasks with two classes; return the scores of the true labels."""
    rng = np.random.default_rng(tasks)
    labels = rng.integers(0, 2, tasks * SIZE)
    true = rng.random((2, tasks * SIZE), dtype=np.float32).max(axis=0)
    p_yes = np.where(labels == 1, true, 1 - true)
    sites = pa.DictionaryArray.from_arrays(
        np.repeat(np.arange(tasks, dtype=np.int32), SIZE), [f"{prefix}{i}" for i in range(tasks)]
    )
    columns = {"site": sites, "y": np.where(labels == 1, "yes", "no")}
    parquet.write_table(pa.table(columns | {"p_no": 1 - p_yes, "p_yes": p_yes}), path)
    return np.asarray(np.where(labels == 1, p_yes, 1 - p_yes))


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(tasks: int, folder: Path, promise: MetaPS) -> str:
    """Return a row of the table."""
    table, page = folder / "new.parquet", folder / "report.html"
    missed = int((write(table, tasks, "new ") < promise.threshold_).sum())
    evaluated = seconds(lambda: evaluate(promise, open_table(table)))
    whole = seconds(lambda: report(promise, open_table(table), output=page))
    evaluation = evaluate(promise, open_table(table))
    assert evaluation.missed.sum() == missed
    assert evaluation.worst(1)[0]["task"] in page.read_text(encoding="utf-8")
    return f"| {tasks:,} | {evaluated:.1f} s | {whole:.1f} s | {whole / evaluated:.1f} |"


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or [1_000, 10_000, 100_000]
    print("| tasks | evaluate | report | ratio |\n|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "known.parquet", 200, "known ")
        known = open_table(folder / "known.parquet", Columns(task="site", label="y"))
        promise = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(known)
        for tasks in counts:
            print(measure(tasks, folder, promise))


if __name__ == "__main__":
    main()
