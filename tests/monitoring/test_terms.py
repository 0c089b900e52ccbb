"""Terms: what is watched, and how the same guarantee is recognised."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metapac import Context, MetaPS, load
from metapac.monitoring import Terms
from tests.monitoring.conftest import LEVELS, draw


def test_terms_of_a_promise(promise: MetaPS) -> None:
    terms = Terms.from_promise(promise, 0.01, 0)
    assert (terms.epsilon, terms.alpha, terms.delta) == (0.1, 0.2, 0.1)
    assert (terms.rates, terms.classes, terms.min_examples) == ([0.1], None, 0)
    assert terms.limit == 100
    assert (terms.unit, terms.example) == ("clinic", "patient")
    assert terms.promise == promise.promise_


def test_terms_of_classes(by_class: MetaPS) -> None:
    terms = Terms.from_promise(by_class, 0.01, 0)
    assert terms.classes == ("no", "yes")
    assert terms.rates == [0.1, 0.2]
    shared = MetaPS(**LEVELS, per_class=True)
    scores, tasks = draw(np.random.default_rng(0), [f"old {i}" for i in range(40)], 200)
    shared.calibrate(scores, tasks, np.tile([0, 1], len(scores) // 2))
    assert Terms.from_promise(shared, 0.01, 0).rates == [0.1, 0.1]


@pytest.mark.parametrize("kind", ["promise", "by_class"])
def test_terms_go_through_json(kind: str, request: pytest.FixtureRequest) -> None:
    terms = Terms.from_promise(request.getfixturevalue(kind), 0.01, 3)
    assert Terms.from_json(json.loads(json.dumps(terms.to_json()))) == terms


def test_min_examples_of_the_guarantee_is_the_least() -> None:
    promise = MetaPS(**LEVELS, min_examples=30)
    promise.calibrate(*draw(np.random.default_rng(0), [f"old {i}" for i in range(40)]))
    sizes = [Terms.from_promise(promise, 0.01, least).min_examples for least in (0, 29, 31)]
    assert sizes == [30, 30, 31]


def test_the_checksum_is_that_of_the_guarantee(promise: MetaPS, tmp_path: Path) -> None:
    checksum = Terms.from_promise(promise, 0.01, 0).checksum
    promise.save(tmp_path / "promise.json")
    assert Terms.from_promise(load(tmp_path / "promise.json"), 0.5, 9).checksum == checksum
    scores, tasks = draw(np.random.default_rng(0), [f"old {i}" for i in range(40)])
    words = MetaPS(**LEVELS).calibrate(scores, tasks, context=Context(unit="ward", model="b"))
    assert Terms.from_promise(words, 0.01, 0).checksum == checksum
    others = [
        MetaPS(**LEVELS | {"alpha": 0.25}).calibrate(scores, tasks),
        MetaPS(**LEVELS | {"delta": 0.2}).calibrate(scores, tasks),
        MetaPS(**LEVELS).calibrate(scores - 0.1, tasks),
        MetaPS(**LEVELS).calibrate(scores, np.char.add(tasks, "!")),
    ]
    found = {Terms.from_promise(other, 0.01, 0).checksum for other in others}
    assert len(found | {checksum}) == 5
