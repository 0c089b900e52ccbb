"""The promise as a value: its levels, its sentence, its refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee
from metapac.guarantee import ADAPTIVE_CANDIDATES, Level, pooled_sentence
from metapac.tasks.synthetic import TwoPointFamily

small = st.floats(1e-3, 0.9)


def test_splits_of_alpha() -> None:
    def levels(split: str | float) -> tuple[Level, ...]:
        return Guarantee(epsilon=0.1, alpha=0.2, delta=0.01, split=split).levels

    assert levels("even") == (Level(0.1, 0.1, 0.01),)
    assert levels("tight") == (Level(0.1, 0.2 * 0.9, 0.01),)
    assert levels(0.25) == (Level(0.25, 0.2 * 0.75, 0.01),)
    assert [level.alpha_within for level in levels("adaptive")] == list(ADAPTIVE_CANDIDATES)
    assert sum(level.delta for level in levels("adaptive")) == pytest.approx(0.01)


@given(epsilon=small, alpha=small, delta=small, split=st.one_of(st.just("tight"), small))
def test_a_bad_task_shows_often_enough(
    epsilon: float, alpha: float, delta: float, split: str | float
) -> None:
    # The proof's last line: what is certified across tasks, over the chance that a bad task
    # shows, is alpha. Not above it, or the promise fails; not below, or it is loose.
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, split=split)
    assert g.alpha_across / (1 - g.alpha_within) == pytest.approx(alpha, rel=1e-12)


@pytest.mark.parametrize("split", ["even", "tight", 0.3, "adaptive"])
@pytest.mark.parametrize("tasks", [57, 150, 400])
@pytest.mark.parametrize("examples", [30, 61, 200])
def test_no_level_breaks_more_often_than_delta(
    split: str | float, tasks: int, examples: int
) -> None:
    # Worst tasks of docs/guarantee.md; the chance that a level answers wrongly is a number.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
    worst = TwoPointFamily(bad=g.alpha + 1e-9, miss=g.epsilon + 1e-9)
    chances = [worst.chance_of_one(level, g.epsilon, tasks, examples) for level in g.levels]
    assert sum(chances) <= g.delta


def test_the_tight_split_cannot_be_loosened() -> None:
    # n and N at which both binomial steps sit just below their level: the promise then breaks
    # with probability close to delta, and with alpha_across = alpha it breaks outright.
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    worst = TwoPointFamily(bad=g.alpha + 1e-9, miss=g.epsilon + 1e-9)
    tasks, examples = 3910, 30_038
    (level,) = g.levels
    assert 0.95 * g.delta < worst.chance_of_one(level, g.epsilon, tasks, examples) <= g.delta
    unscaled = level._replace(alpha_across=g.alpha)
    assert worst.chance_of_one(unscaled, g.epsilon, tasks, examples) > 2 * g.delta


def test_chance_of_one_is_the_binomial_sum_it_claims() -> None:
    family = TwoPointFamily(bad=0.3, miss=0.2)
    level = Level(0.4, 0.3, 0.5)
    # 3 examples at epsilon 0.3: P(0 errors) = 0.343 <= 0.4 so one miss shows; 2 tasks at 0.3:
    # P(0) = 0.49 <= 0.5, so no task threshold may be 0.
    shows = 0.3 * stats.binom.sf(0, 3, 0.2)
    assert family.chance_of_one(level, 0.3, 2, 3) == pytest.approx((1 - shows) ** 2)


def test_tasks_too_small_to_certify_never_give_one() -> None:
    level = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05).levels[0]
    assert TwoPointFamily(bad=0.1, miss=0.1).chance_of_one(level, 0.1, tasks=100, examples=5) == 0


def test_the_sentence_has_numbers_and_assumptions() -> None:
    g = Guarantee(epsilon=0.05, alpha=0.1, delta=1e-5)
    assert str(g) == g.sentence()
    assert g.sentence(tasks=500, threshold=0.25) == (
        "With probability at least 1 - 1e-05 over the 500 calibration tasks, the sets {label: "
        "score >= 0.25} miss the true label at most 5% of the time on at least 90% of new tasks "
        "(each with its own adaptation examples, if any), provided that tasks are drawn "
        "independently and alike, that no calibration task was seen in training, and that one "
        "fixed score function serves them all."
    )
    assert "nothing is said of any one task" in pooled_sentence(0.1, 0.01)


def test_no_number_in_the_sentence_is_rounded() -> None:
    g = Guarantee(epsilon=0.123456789, alpha=1e-7, delta=1.23456789e-9)
    text = g.sentence(threshold=0.00019000160734350402)
    for number in ("12.3456789%", "99.99999%", "1 - 1.23456789e-09", "0.00019000160734350402"):
        assert number in text
    assert "7%" in str(Guarantee(epsilon=0.07, alpha=0.07, delta=0.1))
    assert "93%" in str(Guarantee(epsilon=0.07, alpha=0.07, delta=0.1))


def test_an_adaptive_guarantee_has_no_single_level() -> None:
    g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.01, split="adaptive")
    with pytest.raises(ValueError, match="split='adaptive' runs 4 levels, .* See .levels"):
        _ = g.alpha_within


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a number strictly between 0 and 1, got 0"),
        ({"alpha": 1.5}, "alpha must be a number strictly between 0 and 1, got 1.5"),
        ({"delta": None}, "delta must be a number strictly between 0 and 1, got None"),
        ({"split": 1.0}, "split must be a number strictly between 0 and 1, got 1.0"),
        ({"split": "odd"}, "split must be 'tight', 'even', 'adaptive' or a number .* got 'odd'"),
    ],
)
def test_bad_input_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Guarantee(**{"epsilon": 0.1, "alpha": 0.1, "delta": 0.1} | changes)  # type: ignore[arg-type]
