"""Engines start with their options, or explain in a sentence why they cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from metapac.binomial import allowed_errors_in_task
from metapac.tables import connect
from tests.helpers.tables import calibrate_table


def setting(connection: Any, name: str) -> Any:
    return connection.raw_sql(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_duckdb_respects_its_limits() -> None:
    connection = connect(memory_limit="200MiB", threads=1)
    assert setting(connection, "memory_limit") == "200.0 MiB"
    assert setting(connection, "threads") == 1
    assert "metapac-" in setting(connection, "temp_directory")  # not the working directory
    connection.disconnect()


def test_duckdb_downloads_no_code() -> None:
    connection = connect()
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert setting(connection, name) is False
    assert setting(connection, "allow_community_extensions") is False
    connection.disconnect()


def test_more_rows_than_memory_are_calibrated(tmp_path: Path) -> None:
    """A file of several times the limit, out of order."""
    connection = connect(memory_limit="60MiB", threads=2)
    path = tmp_path / "big.parquet"
    connection.raw_sql(
        "COPY (SELECT (i * 7919) % 4000 AS task, (i * 104729) % 4000000 AS score, "
        "repeat('x', 100) AS note FROM range(4000000) t(i)) "
        f"TO '{path}' (FORMAT parquet, COMPRESSION uncompressed)"
    )
    result = calibrate_table(
        path, task="task", score="score", epsilon=0.1, alpha=0.1, delta=1e-5, connection=connection
    )
    assert result.task_sizes_.tolist() == [1000] * 4000
    # 7919 and 104729 have inverses modulo 4000: a task's scores are one residue class of 4000.
    inverse = pow(7919, -1, 4000)
    residues = (np.arange(4000) * inverse * 104729) % 4000
    ranks = [
        allowed_errors_in_task(1000, 0.1, level.alpha_within) for level in result.guarantee_.levels
    ]
    expected = residues[:, None, None] + 4000 * np.array(ranks)
    assert result._evidence.thresholds.tolist() == expected.tolist()
    connection.disconnect()


def test_too_little_memory_is_reported() -> None:
    connection = connect(memory_limit="5MiB", threads=2)
    scores = np.arange(1e6)  # 8 MB
    with pytest.raises(ValueError, match=r"Raise memory_limit\."):
        calibrate_table(
            pa.table({"task": scores.astype(int) % 10, "score": scores}), task="task",
            score="score", epsilon=0.1, alpha=0.1, delta=0.1, connection=connection,
        )  # fmt: skip
    connection.disconnect()


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stderr


def test_a_missing_extra_is_named() -> None:
    result = python("import sys; sys.modules['ibis'] = None; import metapac.tables")
    assert "reading tables needs ibis. Install it with: pip install 'metapac[tables]'" in result
    result = python(
        "import sys; sys.modules['duckdb'] = None; import metapac.tables as t; t.connect()"
    )
    assert "reading tables needs duckdb. Install it with: pip install 'metapac[tables]'" in result
    result = python(
        "import sys; sys.modules['pyspark'] = None; import metapac.tables as t; t.connect('spark')"
    )
    assert "Spark needs pyspark. Install it with: pip install 'metapac[spark]'" in result


def test_spark_without_java_is_reported() -> None:
    pytest.importorskip("pyspark")
    code = (
        "import os; os.environ |= {'JAVA_HOME': '/nowhere', 'PATH': '/usr/bin:/bin'}; "
        "import metapac.tables as t; t.connect('spark')"
    )
    result = python(code)
    assert "Spark did not start at 'local[*]'" in result
    assert "It needs Java 17 or newer" in result


def test_a_wrong_master_is_reported() -> None:
    pytest.importorskip("pyspark")
    result = python("import metapac.tables as t; t.connect('spark', master='nonsense')")
    assert "InvalidInput: Spark did not start at 'nonsense' (" in result
    assert "a cluster that answers at that address" in result


def test_the_spill_folder_is_private_and_goes_with_the_connection() -> None:
    connection = connect()
    spill = Path(setting(connection, "temp_directory"))
    assert spill.stat().st_mode & 0o777 == 0o700
    connection.disconnect()
    assert not spill.exists()
    connection.disconnect()  # harmless


def test_the_spill_folder_of_a_connection_left_open_goes_with_the_process(tmp_path: Path) -> None:
    code = "from metapac.tables import connect; connection = connect(); print('open')"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="memory_limit"):
        connect(memory_limit="much")
