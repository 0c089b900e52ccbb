"""Commands run inside this process, and the results they are compared with."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from click.testing import CliRunner, Result

from metapac import MetaPS
from metapac.cli.app import app

STRICT = ["--epsilon", "0.1", "--alpha", "0.1", "--delta", "1e-5"]
LEVELS = ["--epsilon", "0.2", "--alpha", "0.3", "--delta", "0.1"]
CLASSES = np.array(["cat", "dog", "owl"])


def metapac(*words: object) -> Result:
    """Run a command as it is typed: its exit_code, stdout, stderr, and exception if it is a bug."""
    return CliRunner().invoke(app, [str(word) for word in words])


def list_commands(group: Any = app, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words of each command, and the command."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "panels"):
            yield from list_commands(command, *path, name)
        else:
            yield (*path, name), command


def write_csv(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


def as_new(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of new sites, whose scores are hardly higher: the sets are the same."""
    numbers = frame.select_dtypes("floating").columns
    higher = {name: frame[name] * (1 + 1e-6) for name in numbers}
    return frame.assign(site="new " + frame.site, **higher)


def calibrate_frame(frame: pd.DataFrame, **changes: Any) -> MetaPS:
    """Return what the library computes on the frame at ``LEVELS``."""
    method = MetaPS(**{"epsilon": 0.2, "alpha": 0.3, "delta": 0.1} | changes)
    return method.calibrate(frame.true.to_numpy(), frame.site.to_numpy())
