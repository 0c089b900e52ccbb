"""Labelled scores wherever they are kept: examples, and what a guarantee is calibrated with."""

from __future__ import annotations

import numpy as np
import pytest
from metapac.report.tables import Tabled

from metapac import MetaPS
from metapac.report.data import Data, Example, Scored, change_epsilon, find_cluster_seed
from tests.report.conftest import LEVELS


@pytest.mark.parametrize(
    ("labels", "full", "kind", "missed"),
    [
        ((), False, "empty", True),
        (("dog",), False, "missed", True),
        (("cat",), False, "single", False),
        (("cat", "dog"), False, "several", False),
        (("cat", "dog", "owl"), True, "full", False),
        (("cat",), True, "full", False),
    ],
)
def test_what_a_set_is_like(labels: tuple[str, ...], full: bool, kind: str, missed: bool) -> None:
    example = Example("a", "cat", labels, full=full)
    assert (example.kind, example.is_missed) == (kind, missed)


@pytest.mark.parametrize(
    ("truth", "missed"), [(1.0, False), (2.0, False), (2.1, True), (0.9, True)]
)
def test_an_interval_contains_its_ends(truth: float, missed: bool) -> None:
    example = Example("a", truth, None, (1.0, 2.0))
    assert example.is_missed == missed
    assert example.kind == ("missed" if missed else "hit")


def test_only_epsilon_is_changed(per_class: MetaPS) -> None:
    changed = change_epsilon(per_class, 0.05)
    assert changed.pop("epsilon") == 0.05
    expected = {"alpha": 0.3, "delta": LEVELS["delta"], "split": "joint"}
    assert changed == expected | {"per_class": True, "min_examples": 0}


def test_the_seed_of_the_draw_from_clusters_is_kept(promise: MetaPS) -> None:
    scores, tasks = np.linspace(0, 1, 4000), np.tile(np.arange(40), 100)
    owners = {task: task // 2 for task in range(40)}
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1)
    assert find_cluster_seed(method.calibrate(scores, tasks, clusters=owners, rng=7)) == 7
    assert find_cluster_seed(promise) is None


def test_arrays_and_tables_are_data() -> None:
    assert issubclass(Scored, Data)
    assert issubclass(Tabled, Data)
    with pytest.raises(TypeError, match="abstract"):
        Data()  # type: ignore[abstract]
