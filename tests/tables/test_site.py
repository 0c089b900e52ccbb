"""A site computes what the whole table would give for its rows. See also tests/sites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS
from tests.helpers.tables import site_table

LEVELS: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    scores = rng.random(12 * 40)
    return pd.DataFrame({"site": np.repeat(np.arange(12), 40), "score": scores, "y": "a"})


def test_classes_must_be_named_since_a_site_may_lack_some(frame: pd.DataFrame) -> None:
    options = LEVELS | {"name": "a", "label": "y", "score": "score", "per_class": True}
    with pytest.raises(InvalidInput, match="classes must name all classes if score is passed"):
        site_table(frame, **options)
    site = site_table(frame, **options | {"classes": ["a", "b"]})
    assert site.classes == ("a", "b")
    assert site.examples == (480, 0)


def test_a_column_of_an_absent_class_is_accepted(frame: pd.DataFrame) -> None:
    scores = frame.rename(columns={"score": "p_a"}).assign(p_b=0.5)
    site = site_table(scores, name="a", label="y", per_class=True, **LEVELS)
    assert site.classes == ("a", "b")
    assert site.examples == (480, 0)


def test_a_label_beside_class_scores() -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 40, "p_a": np.linspace(1, 0, 80), "p_b": 0.5})
    site = site_table(frame, name="x", label="y", **LEVELS)
    true = np.where(frame.y == "a", frame.p_a, frame.p_b)
    assert site.thresholds == (tuple(MetaPS(**LEVELS).task_threshold(true).tolist()),)


def test_a_small_site_has_no_evidence_and_still_counts() -> None:
    site = site_table(pd.DataFrame({"p": [0.5]}), name="small", score="p", **LEVELS)
    assert site.thresholds == ((-np.inf,) * 13,)
    assert site.examples == (1,)
