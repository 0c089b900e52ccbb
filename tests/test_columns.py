"""The columns that a promise or a site file stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from metapac import InvalidInput
from metapac.inputs import check_columns, find_names


@pytest.mark.parametrize(
    "columns",
    [
        None,
        {},
        {"task": "site", "score": "p"},
        {"task": "site", "label": "y", "columns": "p_*", "classes": ["a", "b"]},
        {"label": "y", "columns": ["u", "v"], "classes": [0, 1]},
        {"prediction": "m", "y": "y", "scale": "s", "future": ["a", "a"]},
    ],
)
def test_columns_that_calibration_stores_are_accepted(columns: Any) -> None:
    check_columns(columns, None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"task": "a", "score": "a"},
            "columns.task and columns.score must be two columns, got 'a'",
        ),
        ({"prediction": "a", "y": "a"}, "columns.prediction and columns.y must be two columns"),
        ({"classes": []}, r"columns.classes must name each class once, got \[\]"),
        ({"classes": ["1", 1]}, r"columns.classes must name each class once, got \['1', 1\]"),
        (
            {"columns": ["u"], "classes": ["a", "b"]},
            "columns.columns must hold a column for each of 2 classes, got 1",
        ),
    ],
)
def test_columns_that_contradict_themselves_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_columns(columns, None)


def test_classes_are_those_of_the_evidence_in_its_order() -> None:
    check_columns({"classes": ["a", "b"]}, ("a", "b"))
    check_columns({"score": "p"}, ("a", "b"))
    for named in (["b", "a"], ["a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInput, match=r"columns.classes must be those of the evidence"):
            check_columns({"classes": named}, ("a", "b"))


def test_names_of_series() -> None:
    y, site = pd.Series([1.0, 2.0], name="stay"), pl.Series("site", ["ohio", "utah"])
    assert find_names(task=site, y=y) == {"task": "site", "y": "stay"}
    assert find_names("prediction", task=site, y=y) == {"task": "site", "y": "stay"}
    assert find_names("stay", task=site, y=y) == {}
    assert find_names(task=site, y=y.rename("site")) == {}
    assert find_names(task=site, y=np.ones(2)) == {}
    assert find_names(task=site, y=y.rename(0)) == {}
    assert find_names(task=site, y=y.rename("")) == {}
