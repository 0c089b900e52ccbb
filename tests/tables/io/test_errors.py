"""Errors of an engine name the file, and other errors pass through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from metapac import EngineError
from metapac.tables import errors

PROMISE: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


def test_only_errors_of_engines_are_translated() -> None:
    message = r"x.parquet cannot be read \(broken\)\. Is it truncated"
    with pytest.raises(EngineError, match=message), errors.reporting("x.parquet", is_file=True):
        raise duckdb.Error("broken\nmore")
    message = r"^y.csv cannot be written \(full\)\.$"
    with pytest.raises(EngineError, match=message), errors.reporting("y.csv", "written"):
        raise pa.ArrowInvalid("full")
    for context in (errors.reporting("x"), errors.reporting("x", "written")):
        with pytest.raises(KeyError), context:
            raise KeyError("a bug")


def test_secrets_are_not_shown() -> None:
    address = "postgres://u:hunter22@h/db"
    with pytest.raises(EngineError) as caught, errors.reporting("x", address=address):
        raise duckdb.Error("bad 'hunter22' in postgres://u:hunter22@h, password=abc")
    assert str(caught.value) == "x cannot be read (bad '***' in postgres://h/..., password=***)."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__  # a traceback would show it


def test_the_root_cause_of_a_java_error_is_shown() -> None:
    root = SimpleNamespace(getCause=lambda: None, getMessage=lambda: "\n disk full \n at line 1")
    error: Any = RuntimeError("a long trace")
    error.java_exception = SimpleNamespace(getCause=lambda: root, getMessage=lambda: "job failed")
    assert errors.reason(error) == "disk full"
    assert errors.reason(RuntimeError()) == "RuntimeError"


def test_an_error_inside_a_json_text_is_shown_alone() -> None:
    text = 'Async write failed: {"exception_type":"IO","exception_message":"\\"a\\" is full","x":1}'
    assert errors.reason(duckdb.Error(text)) == '"a" is full'
