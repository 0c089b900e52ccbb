"""The demonstrations: drawn characters with a small learner, and the survey by state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from metapac.fewshot import scoring
from metapac.fewshot.reproduce import demos
from metapac.fewshot.scoring import accuracy
from metapac.guarantee import format_share
from metapac.heart_sites import read_sample


def test_characters_are_compared_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = replace(demos.TRAINING, epochs=2, episodes_per_epoch=20)
    experiment = replace(demos.EXPERIMENT, calibration_tasks=115, test_tasks=4)
    monkeypatch.setattr(demos, "TRAINING", training)
    monkeypatch.setattr(demos, "EXPERIMENT", experiment)
    monkeypatch.setattr(demos, "CHARACTERS", dict.fromkeys(demos.CHARACTERS, 12))
    # 10 tasks of 250 labels tell 0.4 from the chance of 0.2 as surely as 100 tasks do.
    monkeypatch.setattr(
        scoring, "accuracy", lambda *pools, **shape: accuracy(*pools, **{**shape, "tasks": 10})
    )
    found = demos.demonstrate("glyphs", tmp_path / "new", draws=1, rng=3)
    assert isinstance(found, demos.MethodsDemo)
    assert found.accuracy is not None
    assert found.accuracy > 0.3  # chance is 0.2, and 12 standard errors below
    (rows,) = found.summary.rows
    assert [name for name, _ in rows.methods()] == [method.name for method in demos.METHODS]
    assert len(rows) == 4 * len(demos.METHODS)
    assert (rows.select("PS-Test").size == 5).all()  # 100 labels, and 110 are needed
    table, *pictures = found.files
    assert [path.name for path in pictures] == ["demo.png", "sets.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    header, *lines = table.read_text().splitlines()
    assert header == "draw,method,task,threshold,error,size,rng,metapac"
    sizes = np.array([float(line.split(",")[5]) for line in lines])
    np.testing.assert_array_equal(sizes, rows.size)
    assert {line.split(",")[6] for line in lines} == {"3"}


@pytest.fixture(scope="module")
def found() -> demos.SitesDemo:
    """The demonstration on states as the command runs it."""
    return demos.compare_guarantees(rng=0)


def test_no_state_is_in_two_parts_and_only_one_year_is_used(found: demos.SitesDemo) -> None:
    parts = [set(part.tolist()) for part in (found.train, found.known, found.new)]
    assert [len(part) for part in parts] == [10, 20, 23]
    assert len(set.union(*parts)) == 53
    assert {*found.plain.evaluation.tasks.tolist()} == parts[2]
    assert set(found.plain.predictor.context_.trained_on or ()) == parts[0]
    sample = read_sample()
    count = np.count_nonzero((sample.year == "2021") & np.isin(sample.state, found.new))
    for attempt in (found.plain, found.per_class):
        assert attempt.evaluation.examples.sum() == count


def test_a_guarantee_per_class_finds_the_rare_class(found: demos.SitesDemo) -> None:
    plain, each = found.plain.evaluation, found.per_class.evaluation
    assert plain.verdict is not None
    assert plain.verdict.status == "holds"
    assert plain.missed.sum() <= 0.1 * plain.examples.sum()
    assert found.plain.of_yes.missed.sum() >= 0.9 * found.plain.of_yes.examples.sum()
    yes = found.per_class.of_yes
    assert yes.missed.sum() <= 0.1 * yes.examples.sum()
    assert plain.sizes is not None
    assert each.sizes is not None
    assert each.sizes.mean() > plain.sizes.mean() + 0.5
    for attempt in (found.plain, found.per_class):  # those with a heart attack are the class yes
        part = {part.label: part for part in attempt.evaluation.classes or ()}["yes"]
        assert part.examples == attempt.of_yes.examples.sum()
        assert part.missed == attempt.of_yes.missed.sum()


def test_reports_are_on_their_promises(found: demos.SitesDemo, tmp_path: Path) -> None:
    demos.save_promises(found, tmp_path)
    one, other = (path.read_text(encoding="utf-8") for path in demos.write_reports(found, tmp_path))
    assert "“<bdi>yes</bdi>” is missed in 1,9" in one
    for html, attempt in ((one, found.plain), (other, found.per_class)):
        answered = (attempt.evaluation.set_shares or {})["single"]
        assert f"The model answers {format_share(answered)} of the respondents" in html


def test_the_logistic_regression_is_at_its_optimum_and_stays_finite() -> None:
    # The gradient of the penalised likelihood, in the columns that the model standardises.
    for rng in (0, 1):
        generator = np.random.default_rng(rng)
        x = generator.normal([1.0, -50.0, 0.0], [2.0, 30.0, 1.0], size=(400, 3))
        y = (generator.random(400) < special.expit(x[:, 0] - 2)).astype(np.int64)
        p = demos.fit_logistic(x, y)(x)
        columns = np.column_stack([np.ones(400), (x - x.mean(axis=0)) / x.std(axis=0)])
        np.testing.assert_allclose(p.sum(axis=1), 1)
        weights = np.linalg.lstsq(columns, special.logit(p[:, 1]), rcond=None)[0]
        gradient = columns.T @ (y - p[:, 1]) - np.array([0, 1, 1, 1]) * weights
        np.testing.assert_allclose(gradient, 0, atol=1e-6)
    x = np.column_stack([np.repeat([0.0, 1.0], 50), np.full(100, 7.0)])  # separates; constant
    p = demos.fit_logistic(x, np.repeat([0, 1], 50))(np.array([[0.0, 7.0], [1.0, 7.0]]))
    assert np.isfinite(p).all()
    assert min(p[0, 0], p[1, 1]) > 0.9
