"""The demonstration on the survey: its model, its split, and what the two guarantees do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

import metapac
from metapac.fewshot.reproduce import demos
from metapac.guarantee import format_share
from metapac.heart_sites import read_sample


@pytest.fixture(scope="module")
def found() -> demos.SitesDemo:
    """The demonstration as the command runs it."""
    return demos.compare_guarantees(rng=0)


def test_no_state_is_in_two_parts(found: demos.SitesDemo) -> None:
    parts = [set(part.tolist()) for part in (found.train, found.known, found.new)]
    assert [len(part) for part in parts] == [10, 20, 23]
    assert len(set.union(*parts)) == 53
    assert {*found.plain.evaluation.tasks.tolist()} == parts[2]
    assert set(found.plain.predictor.context_.trained_on or ()) == parts[0]


def test_only_one_year_is_used(found: demos.SitesDemo) -> None:
    sample = read_sample()
    rows = (sample.year == "2021") & np.isin(sample.state, found.new)
    expected = np.count_nonzero(rows)
    for attempt in (found.plain, found.per_class):
        assert attempt.evaluation.examples.sum() == expected


def test_the_plain_guarantee_holds_and_misses_the_rare_class(found: demos.SitesDemo) -> None:
    plain = found.plain.evaluation
    assert plain.verdict is not None
    assert plain.verdict.status == "holds"
    assert plain.missed.sum() <= 0.1 * plain.examples.sum()
    assert found.plain.of_yes.missed.sum() >= 0.9 * found.plain.of_yes.examples.sum()


def test_the_guarantee_per_class_finds_it_at_the_price_of_large_sets(
    found: demos.SitesDemo,
) -> None:
    each = found.per_class
    assert each.evaluation.by_class is not None
    assert each.of_yes.missed.sum() <= 0.1 * each.of_yes.examples.sum()
    plain_sizes, sizes = found.plain.evaluation.sizes, each.evaluation.sizes
    assert plain_sizes is not None
    assert sizes is not None
    assert sizes.mean() > plain_sizes.mean() + 0.5


def test_those_with_a_heart_attack_are_the_class_yes(found: demos.SitesDemo) -> None:
    for attempt in (found.plain, found.per_class):
        part = {part.label: part for part in attempt.evaluation.classes or ()}["yes"]
        assert part.examples == attempt.of_yes.examples.sum()
        assert part.missed == attempt.of_yes.missed.sum()


@pytest.mark.parametrize("rng", [0, 1])
def test_the_logistic_regression_is_at_its_optimum(rng: int) -> None:
    # The gradient of the penalised likelihood, in the columns that the model standardises.
    generator = np.random.default_rng(rng)
    x = generator.normal([1.0, -50.0, 0.0], [2.0, 30.0, 1.0], size=(400, 3))
    y = (generator.random(400) < special.expit(x[:, 0] - 2)).astype(np.int64)
    predict = demos.fit_logistic(x, y)
    columns = np.column_stack([np.ones(400), (x - x.mean(axis=0)) / x.std(axis=0)])
    p = predict(x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    weights = np.linalg.lstsq(columns, special.logit(p[:, 1]), rcond=None)[0]
    gradient = columns.T @ (y - p[:, 1]) - np.array([0, 1, 1, 1]) * weights
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_the_logistic_regression_stays_finite() -> None:
    x = np.column_stack([np.repeat([0.0, 1.0], 50), np.full(100, 7.0)])  # separates; constant
    predict = demos.fit_logistic(x, np.repeat([0, 1], 50))
    p = predict(np.array([[0.0, 7.0], [1.0, 7.0]]))
    assert np.isfinite(p).all()
    assert p[0, 0] > 0.9
    assert p[1, 1] > 0.9


def test_promises_and_picture_are_written(found: demos.SitesDemo, tmp_path: Path) -> None:
    plain, per_class = demos.save_promises(found, tmp_path / "new")
    assert metapac.load(plain).threshold_ == found.plain.predictor.threshold_
    assert "label is 'yes', at most 10%" in metapac.load(per_class).explain()
    demos.draw_comparison(found, tmp_path / "sites.png")
    assert (tmp_path / "sites.png").read_bytes().startswith(b"\x89PNG")


def test_each_guarantee_has_its_report(found: demos.SitesDemo, tmp_path: Path) -> None:
    demos.save_promises(found, tmp_path)
    paths = demos.write_reports(found, tmp_path)
    assert [path.name for path in paths] == ["plain.html", "per_class.html"]
    plain, per_class = (path.read_text(encoding="utf-8") for path in paths)
    assert "Checked on new states: holds, but a class is missed" in plain
    assert "“<bdi>yes</bdi>” is missed in 1,9" in plain
    assert "Checked on new states: holds</strong>" in per_class
    for html, shares in ((plain, found.plain), (per_class, found.per_class)):
        answered = (shares.evaluation.set_shares or {})["single"]
        assert f"The model answers {format_share(answered)} of the respondents" in html
