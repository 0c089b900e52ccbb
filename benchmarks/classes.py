"""Many classes: processor seconds of calibrate, predict and evaluate on 300 rows.

    python benchmarks/classes.py

Each row is a process of its own. The rival does the same on NumPy arrays in memory: threshold, sets
and errors, without reading or writing a table. The aim: predict and evaluate of 1,000 classes take
at most 1 s each, and 20,000 classes in lists are possible.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from metapac import Columns, MetaPS, evaluate, label_lists, open_table

ROWS = 300
CASES = [("columns", 100), ("columns", 1000), ("lists", 1000), ("lists", 5000), ("lists", 20_000)]
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.5, "delta": 0.3}


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(kind: str, count: int) -> str:
    """Return a row of the table; the sets of both routes are compared."""
    rng = np.random.default_rng(0)
    names = [f"c{i}" for i in range(count)]
    scores, codes = rng.random((ROWS, count)), rng.integers(count, size=ROWS)
    tasks, labels = np.arange(ROWS) % 6, np.array(names)[codes]
    columns = (
        {"l": list(scores)}
        if kind == "lists"
        else {f"p_{n}": s for n, s in zip(names, scores.T, strict=True)}
    )
    pattern = "l" if kind == "lists" else "p_*"
    with tempfile.TemporaryDirectory() as folder:
        table, sets = Path(folder, "table.parquet"), Path(folder, "sets.parquet")
        parquet.write_table(pa.table({"task": tasks, "y": labels, **columns}), table)
        used = Columns(task="task", label="y", columns=pattern, classes=names)
        promise = MetaPS(**LEVELS).calibrate(open_table(table, used))
        times = [
            seconds(lambda: MetaPS(**LEVELS).calibrate(open_table(table, used))),
            seconds(lambda: promise.predict(open_table(table), sets)),
            seconds(lambda: evaluate(promise, open_table(table), allow=("overlap",))),
        ]
        kept = promise.predict_set(scores)
        assert parquet.read_table(sets)["set"].to_pylist() == label_lists(kept, names)

    def rival() -> None:
        method = MetaPS(**LEVELS).calibrate(scores, tasks, labels, classes=names)
        label_lists(method.predict_set(scores), names)

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    arrays = seconds(rival)
    cells = " | ".join(f"{each:.2f} s" for each in times)
    ratio = sum(times) / arrays
    return f"| {kind} | {count:,} | {cells} | {arrays:.2f} s | {ratio:.0f} | {peak} MiB |"


def main() -> None:
    if len(sys.argv) > 1:
        warnings.simplefilter("ignore")
        print(measure(sys.argv[1], int(sys.argv[2])))
        return
    print("| scores in | classes | calibrate | predict | evaluate | arrays | ratio | peak |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for kind, count in CASES:
        subprocess.run([sys.executable, __file__, kind, str(count)], check=True)


if __name__ == "__main__":
    main()
