"""The sentences and tables of the results page, on results made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.results_page import (
    controls,
    learners,
    narrow_intervals,
    neighbours,
    opening,
    rare_class,
    research_code,
    sampling_noise,
    sections,
    splits,
)
from experiments.results_page.markdown import (
    NONE,
    all_or,
    anchor,
    either,
    enumerate_names,
    span,
    table,
    with_interval,
    within,
)
from experiments.results_page.sampling_noise import remove_noise
from experiments.results_page.splits import EVEN, JOINT, TIGHT
from experiments.results_page.stored import Evaluation, Result, find_tasks
from metapac.fewshot.reproduce.experiments import (
    EXPERIMENTS,
    GRID_NAME,
    STEP,
    Published,
    all_methods,
)
from metapac.fewshot.study.methods import PROMISES
from metapac.fewshot.study.rows import Rows
from tests.helpers.studies import method_rows

LOW, HIGH = 0.05, 0.3  # errors, with epsilon 0.1
NBSP = "\N{NO-BREAK SPACE}"
CONV4, STRONG, FEWREL = "miniimagenet", "miniimagenet-conv4-strong", "fewrel"
Change = Callable[[str, float], dict[str, Any]]  # of the rows of a method at a delta


def make_rows(key: tuple[str, float], seed: int, change: Change, draws: int = 4) -> Rows:
    """Rows of 20 tasks a draw, all with one error, size and threshold."""
    default: dict[str, Any] = {
        "error": LOW,
        "size": 2.0 + seed / 100,
        "threshold": 0.4,
        "feasible": True,
    }
    values = default | change(*key)
    rows = method_rows(
        np.full((draws, 20), values["error"]),
        np.full((draws, 20), values["size"]),
        method=key[0],
        delta=key[1],
        feasible=values["feasible"],
        examples=500,
    )
    return replace(rows, threshold=np.full(len(rows), values["threshold"]))


def unchanged(method: str, delta: float) -> dict[str, Any]:
    return {}


def make_evaluation(name: str, change: Change = unchanged, seeds: int = 3) -> Evaluation:
    g = EXPERIMENTS[name].guarantee
    keys = [(each.name, each.guarantee.failure_probability) for each in all_methods(g)]
    return Evaluation(
        g,
        [{"draws": 4}] * seeds,
        [{key: make_rows(key, seed, change) for key in keys} for seed in range(seeds)],
    )


def make_result(
    name: str = CONV4,
    change: Change = unchanged,
    *,
    seeds: int = 3,
    accuracy: float = 0.7,
    ran: dict[str, Evaluation] | None = None,
) -> Result:
    main = make_evaluation(name, change, seeds)
    pools = {"test": [18, 1000], "calibration": [40, 1000]}
    facts = {"accuracy": accuracy, "episodes": 10, "seconds": 5.0, "device": "cpu", "pools": pools}
    facts |= {"epochs": 9, "best_epoch": 5, "validation_accuracy": 0.8}
    facts |= {"accuracy_tasks": 2000, "accuracy_interval": [accuracy - 0.001, accuracy + 0.001]}
    return Result(
        main.guarantee,
        main.settings,
        main.by_seed,
        experiment=EXPERIMENTS[name],
        learners=[{**facts, "rng": seed} for seed in range(seeds)],
        controls=ran or {},
    )


def errors(by_method: dict[str, float]) -> Change:
    return lambda method, delta: {"error": by_method[method]} if method in by_method else {}


def lacks_data(*names: str) -> Change:
    return lambda method, delta: {"feasible": method not in names}


# Markdown


def test_names_numbers_and_tables_read_well() -> None:
    assert enumerate_names(["a"]) == "a"
    assert enumerate_names(["a", "b", "c"]) == "a, b and c"
    assert either([3, 2, 3]) == "2 or 3"
    assert span([0.031, 0.069], ".0%") == "3 % to 7 %"
    assert span([0.031, 0.034], ".0%") == "3 %"
    assert with_interval(0.9612, (0.95, 0.97), ".1%") == f"96.1% [95.0,{NBSP}97.0]"
    assert with_interval(2.5, (-np.inf, np.inf), ".2f") == "2.50"
    assert [all_or(count, 7) for count in (7, 3, 0)] == ["all 7", "3 of 7", "none of 7"]
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    assert anchor("mini-ImageNet, Conv4 (small)") == "mini-imagenet-conv4-small"


def test_a_method_without_enough_data_is_not_said_to_hold() -> None:
    result = make_result(change=lacks_data("PS-Test"))
    assert within(result.line(EVEN)) == f"100.0%{NBSP}✓ [98.5,{NBSP}100.0]"
    assert within(result.line("PS-Test")) == f"100.0%{NBSP}† [98.5,{NBSP}100.0]"


# The first screen

ON_DELTA = (
    "So few draws cannot test delta: see [what a mark does not say](#what-a-mark-does-not-say)."
)


def test_where_all_hold_nothing_else_is_said() -> None:
    results = [make_result(change=errors({"PS": HIGH, "Meta-CP": HIGH})), make_result(FEWREL)]
    assert opening._state_meta_ps(results) == (
        "**With Meta-PS and our default, the joint split, at least 90 % of the new tasks were "
        "within epsilon in all 2 experiments**, at 95 % confidence. With the paper's even split "
        f"they were in all 2, and with the tight split in all 2. {ON_DELTA}"
    )
    assert opening._state_baselines(results) == (
        "The same criterion is violated, at 95 % confidence, by **PS** in 1 of 2 (observed "
        "within: *FewRel, CNN sentence encoder*) and by **Meta-CP** in 1 of 2 (observed within: "
        "*FewRel, CNN sentence "
        "encoder*)."
    )
    assert sampling_noise.find(results) == (
        "If the [chance in counting errors](#sampling-noise) is estimated and taken out, the 90 % "
        "error is above epsilon, at 95 % confidence, for PS in 1 of 2 (not in "
        f"*FewRel, CNN sentence encoder*, 0.050 [0.050,{NBSP}0.050]) and for Meta-CP in 1 of 2 "
        f"(not in *FewRel, CNN sentence encoder*, 0.050 [0.050,{NBSP}0.050])."
    )


def test_a_guarantee_that_is_violated_or_lacks_data_is_named() -> None:
    results = [make_result(change=errors({TIGHT: HIGH})), make_result(FEWREL, lacks_data(EVEN))]
    assert opening._state_meta_ps(results).endswith(
        "With the paper's even split they were in all 1 with enough data (too few data: *FewRel, "
        "CNN sentence encoder*), and with the tight split in 1 of 2 (violated: *mini-ImageNet, "
        f"Conv4*, 0.0 % within). {ON_DELTA}"
    )


def test_a_split_that_keeps_every_label_is_named_where_it_is_counted() -> None:
    result = make_result("heart", lambda name, _: {"threshold": 0.0} if name == EVEN else {})
    assert "they were in all 1 (every label kept in 12 of 12 draws of *CDC Heart, MLP*), and" in (
        opening._state_meta_ps([result])
    )
    text = sections.claims_section([result, make_result(STRONG)])
    assert "agrees (0.050, 100.0%; Meta-PS even keeps every label in 12 of 12 draws)" in text
    assert text.count("keeps every label in 12") == 2  # also where PS-Test is compared with it


@pytest.mark.parametrize(
    ("above", "words"),
    [
        ((0, 0, 0), ""),
        ((0, 1, 3), ", 93.3 % were, but 3 seeds are too few to be sure"),  # of 20 tasks
        ((0, 1, 8), ", only 85.0 % were, but 3 seeds are too few to be sure"),
        ((20, 20, 20), ", only 0.0 % were, which is a violation"),
        (None, ", there were too few data"),
    ],
)
def test_why_the_default_is_not_said_to_hold(above: tuple[int, ...] | None, words: str) -> None:
    result = make_result(change=lacks_data(JOINT) if above is None else unchanged)
    for methods, count in zip(result.by_seed, above or (), strict=above is not None):
        rows = methods[JOINT, result.delta]
        error = np.where(rows.task < count, HIGH, LOW)
        methods[JOINT, result.delta] = replace(rows, error=error)
    expected = f"in *mini-ImageNet, Conv4*{words}" if words else ""
    assert opening._state_open(result, JOINT) == expected
    assert f"confidence{'; ' if words else ''}{expected}. With the paper's" in (
        opening._state_meta_ps([result])
    )


def test_tasks_on_which_a_rare_class_is_missed_are_named() -> None:
    def rare(method: str, delta: float) -> dict[str, Any]:
        return {"oracle": {"threshold": 1.0}, JOINT: {"size": 1.0}}.get(method, {})

    result = make_result("heart", rare)
    for learner in result.learners:
        learner.update(tasks_with_both_labels=0.4, auroc_both_labels=0.7)
    for methods in result.by_seed:  # of 20 tasks, 3 have both labels in the support, 2 in all sets
        oracle, joint = (methods[name, result.delta] for name in ("oracle", JOINT))
        threshold = np.where(oracle.task < 3, 0.5, 1.0)
        methods["oracle", result.delta] = replace(oracle, threshold=threshold)
        methods[JOINT, result.delta] = replace(joint, size=np.where(joint.task >= 18, 2.0, 1.0))
    assert rare_class.find([result, make_result()]) == (
        "**This criterion is about all examples of a task together, whatever their class.** For "
        "the joint split it is met, at 95 % confidence, although on many new tasks (75.0 % in *CDC "
        "Heart, MLP*) every set has one label and the positive label has probability zero: every "
        "heart attack is missed there. If a class must not be missed, ask for [a guarantee for "
        "each class](guarantee.md#one-guarantee-for-each-class)."
    )
    assert "On 75.0 % of the new tasks every set of Meta-PS joint has one label." in (
        sections.experiment_section(result)
    )
    assert rare_class.find([make_result()]) == ""
    broken = make_result("heart", errors({JOINT: HIGH}))
    broken.learners = result.learners
    assert rare_class.find([broken]) == ""  # nothing is within


def test_many_exceptions_are_counted() -> None:
    names = (CONV4, FEWREL, "heart")
    results = [make_result(name, errors({"PS": LOW})) for name in names]
    assert "by **PS** in none of 3 (observed within: 3)" in opening._state_baselines(results)


def test_a_row_has_size_error_and_share() -> None:
    result = make_result(change=lacks_data(EVEN))
    rows = [row.split(" | ") for row in opening._main_table([result]).splitlines()[2:]]
    assert [row[1] for row in rows] == ["PS", "Meta-CP", EVEN, JOINT]
    assert rows[-1][2:] == [
        f"2.01 [1.99,{NBSP}2.03]",
        f"0.050 [0.050,{NBSP}0.050]",
        f"100.0%{NBSP}✓ [98.5,{NBSP}100.0] |",
    ]
    assert rows[2][2] == "2.01 †"
    assert rows[2][-1].startswith(f"100.0%{NBSP}†")
    assert rows[0][0] == "| **[mini-ImageNet, Conv4](#mini-imagenet-conv4)**"
    assert rows[1][0] == "| epsilon 0.1, delta 1e-05; 3 seeds"
    assert rows[2][0] == f"| accuracy 70.0% [70.0,{NBSP}70.0]"
    assert rows[3][0] == "| published: 65.8% to 68.2%"


def test_intervals_that_are_narrower_than_others_are_named() -> None:
    results = [make_result(), make_result("cifar10c", seeds=2), make_result("heart")]
    assert narrow_intervals.find(results) == (
        "**Narrow intervals.** Those of *CIFAR10-C, ResNet-50* are over draws, for its learners "
        "alone: they do not cover the training and are not comparable with the others, which are "
        "over seeds. In *CIFAR10-C, ResNet-50* and *CDC Heart, MLP*, different draws have tasks or "
        "state-years in common, so that the intervals are too narrow for other tasks; see their "
        "sections."
    )
    lines = opening._main_table(results).splitlines()
    assert [line for line in lines if "over draws" in line] == [lines[7]]
    assert "epsilon 0.2, delta 1e-05; 2 seeds, intervals over draws" in lines[7]


def test_the_rule_of_a_violation_is_that_of_the_verdicts() -> None:
    """The share that the page prints is the one beyond which a verdict is *violated*."""
    text = opening._how_to_read([make_result()])
    assert "must exceed alpha + 0.05 (1 - alpha) = 14.5 %." in text
    assert "interval of *tasks within* is at least 1 - alpha = 90 %." in text
    verdicts = {}
    for above in (17, 25):  # of 120 tasks in a draw: 14.2 % and 20.8 %, more or less by seed
        result = make_result()
        for methods, more in zip(result.by_seed, (-5, 0, 5), strict=True):
            errors = np.where(np.arange(120) < above + more, HIGH, LOW)
            rows = method_rows([errors] * 4, examples=500, delta=result.delta)
            methods["PS", result.delta] = rows
        line = result.line("PS")
        (cell,) = (c for c in sampling_noise._cells(result, "PS") if "%" in c)
        low = float(cell.split("[")[1].split(",")[0]) / 100
        assert low > result.guarantee.alpha  # which is not enough
        assert line.violated == (low > 0.145)
        verdicts[above] = line.verdict
    assert verdicts == {17: "cannot tell yet", 25: "violated"}


def test_marks_are_counted_and_delta_is_not_tested() -> None:
    results = [
        make_result(change=errors({TIGHT: HIGH})),  # which is a verdict too
        make_result("heart-distinct", lacks_data(EVEN)),
        make_result(seeds=2),
    ]
    assert opening._what_marks_do_not_say(results).endswith(
        "A mark stands for one interval at 95 % confidence. Over 3 seeds, that interval has 2 "
        "degrees of freedom: it is wide, and relies on seeds that vary as a normal distribution "
        "does. The 8 verdicts on Meta-PS, one for each split and experiment with enough data, are "
        "not corrected for their number. And no mark tests delta. Even if the 8 or 12 draws of an "
        "experiment were independent and none failed, a failure probability of up to 31.2 % could "
        "not be ruled out at 95 % confidence, and delta is 1e-05 or 0.01. That delta holds is "
        "[proven](guarantee.md) under the assumptions of the guarantee, not measured."
    )


# Splits


def joint_size(size: float) -> Change:
    return lambda method, delta: {"size": size} if method == JOINT else {"size": 4.0}


def test_savings_are_those_of_large_and_of_the_smallest_tasks() -> None:
    small = {
        f"n-{n}": make_evaluation(CONV4, joint_size(size))
        for n, size in ((75, 1.0), (150, 2.0), (300, 3.0))
    }
    fewer = {name: each for name, each in small.items() if name != "n-75"}
    results = [
        make_result(CONV4, joint_size(3.8), ran=small),
        make_result("heart", joint_size(3.6)),
        make_result(FEWREL, joint_size(3.8), ran=fewer),
    ]
    assert splits.find(results) == (
        "With the same guarantee, the sets of our joint split are smaller than those of the "
        "paper's even split by 5 % to 10 %, and by 75 % where a calibration task has only 75 "
        "examples."
    )
    for methods in results[1].by_seed[:2]:
        rows = methods[EVEN, results[1].delta]
        zero = np.where(rows.draw < 3, 0.0, rows.threshold)
        methods[EVEN, results[1].delta] = replace(rows, threshold=zero)
    assert splits.find(results) == (
        "With the same guarantee, the sets of our joint split are smaller than those of the "
        "paper's even split by 5 %, by 10 % in *CDC Heart, MLP*, where the even split keeps every "
        "label in 6 of 12 draws, and by 75 % where a calibration task has only 75 examples."
    )
    assert "differ by at most 0.400 in the table above, and by up to 3.00 on these small" in (
        splits._small_tasks(results)
    )
    assert list(splits.sizes_of_tasks(results[0])) == [75, 150, 300, 2500]
    assert splits.has_small_tasks(results) == results[::2]


def test_pairs_are_compared_over_seeds() -> None:
    row = splits._paired(make_result(change=joint_size(3.5)))
    assert row[1:4] == ["4.000", "4.000", "3.500"]
    assert row[5] == f"-0.500 [-0.500,{NBSP}-0.500]"
    results = [make_result(), make_result("heart-distinct")]
    assert splits._fewest_tasks(results) == (
        "A split needs this many calibration tasks, or it keeps every label: at delta = 1e-05 even "
        "225, tight 116 and joint 111; at delta = 0.01 even 90, tight 47 and joint 45."
    )


# Controls


def test_the_control_without_shift_is_compared_with_the_test_pool() -> None:
    same = make_evaluation(CONV4)
    result = make_result(CONV4, errors({JOINT: HIGH, "PS": HIGH}), ran={"no-shift": same})
    other = make_result("heart")
    assert controls.find([result, other]) == (
        "On new tasks of the calibration pool, where there is no shift, the criterion of Meta-PS "
        "is met, at 95 % confidence, in all 3 combinations of split and experiment. For the joint "
        "split, 100.0 % of the tasks are within epsilon there, and 0.0 % of the tasks of the test "
        "pool."
    )
    assert "harder than the calibration pool in *mini-ImageNet, Conv4* (0.300 against 0.050)" in (
        controls._shift([result, other])
    )
    *_, text, table, ending = controls._shift([result, other]).split("\n\n")
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    assert [row[1] for row in rows] == ["PS", EVEN, TIGHT, JOINT]  # all that are counted
    assert "without a shift in the first 4 draws of each seed." in text
    assert ending.startswith("There is no such control for *CDC Heart, MLP*: there,")


def test_predictors_are_compared_on_the_draws_of_the_control() -> None:
    seen = make_evaluation(CONV4, errors({"Meta-CP": HIGH}))
    seen.settings = [{"draws": 2}] * 3
    result = make_result(CONV4, ran={"seen": seen})
    for methods in result.by_seed:  # the draws that the control does not have
        rows = methods["Meta-CP", 1e-5]
        methods["Meta-CP", 1e-5] = replace(rows, error=np.where(rows.draw < 2, 0.01, 0.9))
    unseen, control = controls._predictor_lines(result)
    assert unseen.error_mean == pytest.approx(0.01)
    assert control.error_mean == pytest.approx(HIGH)
    text = controls._predictor([result, make_result("heart")])
    assert "more tasks are within epsilon in all 1 experiments and fewer in none of 1" in text
    assert text.endswith(" The control was not run for *CDC Heart, MLP*.")
    assert "Both are evaluated on the first 2 draws of each seed" in text


def test_predictors_whose_intervals_overlap_do_not_differ() -> None:
    result = make_result(CONV4, ran={"seen": make_evaluation(CONV4)})
    assert (
        "There is no clear difference: the intervals of *tasks within* overlap in all 1 "
        "experiments. Meta-CP meets the criterion of Meta-PS in all 1."
    ) in controls._predictor([result, make_result("heart")])


def test_ps_test_is_compared_at_the_second_delta() -> None:
    def smaller(method: str, delta: float) -> dict[str, Any]:
        return {"size": 1.5} if (method, delta) == ("PS-Test", 0.1) else {}

    def larger(method: str, delta: float) -> dict[str, Any]:
        return {"size": 2.5} if (method, delta) == ("PS-Test", 0.1) else {}

    results = [make_result(change=each) for each in (smaller, smaller, larger, unchanged)]
    for seed, methods in enumerate(results[-1].by_seed):  # larger in one seed, smaller in another
        rows = methods["PS-Test", 0.1]
        methods["PS-Test", 0.1] = replace(rows, size=rows.size + (seed - 1) / 10)
    text = controls._ps_test(results)
    assert (
        "smaller than those of Meta-PS joint, at 95 % confidence, in 2 of 4 experiments, and "
        "larger in 1 of 4."
    ) in text
    assert text.startswith("### PS-Test at delta = 0.1\n")


# Sampling noise


def noisy_rows(rates: Any, examples: int) -> Rows:
    counted = np.random.default_rng(0).binomial(examples, rates, (40, 50)) / examples
    return method_rows(counted, examples=examples)


def test_noise_around_one_miss_rate_is_removed() -> None:
    rows = noisy_rows(0.097, 500)
    assert np.quantile(rows.error, 0.9) > 0.11  # although no task is above epsilon
    shrunk = remove_noise(rows)
    assert shrunk.mean() == pytest.approx(rows.error.mean())
    # The variance left is an error of estimation: its standard deviation is that of the variance
    # of 2000 binomial shares, 0.097 * 0.903 / 500 * sqrt(2 / 2000); five of them are allowed.
    assert shrunk.var() <= 5 * 0.097 * 0.903 / 500 * np.sqrt(2 / 2000)


def test_the_spread_of_miss_rates_is_kept() -> None:
    rates = np.where(np.arange(50) < 25, 0.05, 0.25)
    shrunk = remove_noise(noisy_rows(rates, 20))
    assert np.sqrt(shrunk.var()) == pytest.approx(0.1, abs=0.01)
    exact = method_rows(np.full((2, 5), 0.1), examples=500)
    np.testing.assert_allclose(remove_noise(exact), 0.1)


def test_noise_that_makes_a_split_look_better_is_counted() -> None:
    """A few large errors lift the mean above the quantile, so that shrinking raises it."""
    equal = errors(dict.fromkeys((EVEN, TIGHT, JOINT), 2**-4))  # whose mean is exact
    result = make_result(change=equal)
    for methods in result.by_seed:
        rows = methods[JOINT, result.delta]
        error, five = np.where(rows.task < 2, 1.0, 0.04), np.full(len(rows), 5)
        methods[JOINT, result.delta] = replace(rows, error=error, examples=five)
    none = make_result(change=equal)
    for words, results in (("all 3", [none]), ("5 of 6", [none, result])):
        assert f"is as high or lower in {words} combinations" in (
            sampling_noise._state_noise_of_splits(results)
        )


def test_an_experiment_whose_seeds_disagree_is_not_counted_as_above() -> None:
    result = make_result(change=errors({"PS": HIGH}))
    for methods, error in zip(result.by_seed, (0.209, 0.188, 0.084), strict=True):
        rows = methods["Meta-CP", result.delta]
        methods["Meta-CP", result.delta] = replace(rows, error=np.full(len(rows), error))
    value, (low, high) = sampling_noise.quantile_without_noise(result, "Meta-CP")
    assert value == pytest.approx(0.209)
    assert low == pytest.approx(0.084)
    assert high == pytest.approx(0.209)
    assert sampling_noise.find([result]).endswith(
        "is above epsilon, at 95 % confidence, for PS in all 1 and for Meta-CP in none of 1 (not "
        f"in *mini-ImageNet, Conv4*, 0.209 [0.084,{NBSP}0.209])."
    )


# The research code


@pytest.mark.parametrize(
    ("gap", "words"), [(0.99 * STEP, "in all 12"), (1.01 * STEP, "**but not in all** 12")]
)
def test_a_threshold_beyond_a_step_is_found(gap: float, words: str) -> None:
    def shifted(method: str, delta: float) -> dict[str, Any]:
        return {"threshold": 0.4 - gap} if method == GRID_NAME else {}

    result = make_result(change=shifted)
    agreement = research_code.compare(result)
    assert agreement.largest == pytest.approx(gap)
    assert agreement.is_within_step == (gap < STEP)
    assert (agreement.draws, agreement.tasks, agreement.other_sets) == (12, 240, 0)
    sentence = research_code.find([result])
    assert f"{words} draws with a threshold above zero" in sentence
    assert sentence.endswith(" The sets differ on 0 of the 240 new tasks of these draws.")


def test_draws_in_which_both_rules_keep_every_label_are_counted_apart() -> None:
    results = [make_result() for _ in range(3)]
    for result, threshold in zip(results, (0.4, 0.0, -np.inf), strict=True):
        for methods in result.by_seed:
            for key in ((EVEN, result.delta), (GRID_NAME, result.delta)):
                rows = methods[key]
                changed = np.where(rows.draw == 0, 0.4, threshold)  # a draw of each seed is found
                methods[key] = replace(rows, threshold=changed)
    counts = [research_code.compare(result)[:3] for result in results]
    assert counts == [(12, 0, 0), (3, 9, 0), (3, 0, 9)]
    assert research_code.find(results).endswith(
        "in all 18 draws with a threshold above zero (largest difference 0). The sets differ on 0 "
        "of the 360 new tasks of these draws. They also agree, by keeping every label, in 9 draws "
        "with a threshold of zero and 9 with too few data for any."
    )
    for methods in results[2].by_seed:  # one rule finds what the other does not
        key = (EVEN, results[2].delta)
        methods[key] = replace(methods[key], threshold=np.zeros(len(methods[key])))
    assert not research_code.compare(results[2]).is_within_step


def test_other_sets_and_infinite_thresholds_are_found() -> None:
    def other(method: str, delta: float) -> dict[str, Any]:
        return {"size": 1.0, "threshold": -np.inf} if method == GRID_NAME else {}

    agreement = research_code.compare(make_result(change=other))
    assert agreement.other_sets == 240
    assert not agreement.is_within_step
    both = make_result(change=lambda method, delta: {"threshold": -np.inf})
    assert research_code.compare(both) == (0, 0, 12, 0, 0, 0)
    assert research_code._row(both)[1:] == ["0", "0", "12", NONE, NONE]


# Neighbours


def test_neighbours_are_counted_by_verdict() -> None:
    change = errors({"FedCP-QQ": HIGH, "HCP": HIGH, "averaged thresholds": HIGH})
    assert neighbours.find([make_result(change=change), make_result(FEWREL, change)]) == (
        "Related methods promise less. Of the 2 experiments, the criterion of Meta-PS is violated "
        "by FedCP-QQ in 2, averaged thresholds in 2 and HCP in 2; it is met by multi-environment "
        "in 2."
    )
    all_high = errors(dict.fromkeys(PROMISES, HIGH))
    assert neighbours.find([make_result(change=all_high)]).endswith("it is met by none of them.")
    edge = make_result()
    for methods in edge.by_seed:  # 10 % of the tasks are above epsilon: as many as may be
        rows = methods["HCP", edge.delta]
        error = np.where(rows.task < 2, HIGH, LOW)
        methods["HCP", edge.delta] = replace(rows, error=error)
    assert neighbours.find([edge]).endswith("and we cannot tell yet for HCP in 1.")


# Learners


def test_accuracy_is_compared_with_the_nearest_the_highest_and_the_lowest_published() -> None:
    results = [make_result(accuracy=0.67), make_result(FEWREL, accuracy=0.8), make_result("heart")]
    assert learners.find(results) == (
        "The accuracy of the learners differs from the published accuracy that is nearest in kind "
        "(and from the highest and the lowest that is published) by +1.2 points (-1.2, +1.2) in "
        "*mini-ImageNet, Conv4* and -3.1 points (-4.8, -3.1) in *FewRel, CNN sentence encoder*."
    )
    rows = [line.split(" | ") for line in learners._published_table(results).splitlines()[2:]]
    gaps = [row[2:4] for row in rows[:3]]
    assert gaps == [["**65.77%**", "+1.2"], ["68.20%", "-1.2"], ["66.90%", "+0.1"]]
    assert learners.accuracy(make_result(seeds=2)) == "70.0%"
    assert learners.published(make_result()) == "65.8% to 68.2%"


def test_the_tasks_on_which_accuracy_is_measured_are_those_of_the_files() -> None:
    result = make_result()
    result.learners[1]["accuracy_interval"] = [0.696, 0.704]
    result.learners[2]["accuracy_tasks"] = 1500
    assert learners._count_tasks([make_result("heart"), result]) == (
        "Accuracy is measured on 1,500 new tasks of the test pool for each seed, which gives that "
        "of one seed to within ±0.4 points, at 95 % confidence. The interval beside a mean is "
        "Student's t over the seeds; fewer than 3 seeds have none."
    )


def test_a_seed_whose_best_epoch_is_the_first_is_named() -> None:
    result = make_result("heart")
    assert learners.state_first_epochs(result) == ""
    result.learners[1].update(best_epoch=1, epochs=41, accuracy=0.9, validation_accuracy=0.81)
    sentence = (
        "In *CDC Heart, MLP*, validation accuracy, which chooses the epoch, was highest after the "
        "first of 41 epochs in seed 1. It is 81.0 % against 80.0 % in the other seeds, and "
        "accuracy on new tasks 90.0 % against 70.0 %. That is why the intervals over these seeds "
        "are wide."
    )
    assert learners.state_first_epochs(result) == sentence
    assert learners.section([result]).endswith(f"\n\n{sentence}")
    assert f"- {sentence}" in sections.experiment_section(result)


def test_published_accuracies_are_plausible_and_have_a_source() -> None:
    published = [each for experiment in EXPERIMENTS.values() for each in experiment.published]
    assert published
    for each in published:
        assert isinstance(each, Published)
        assert 0.5 < each.accuracy < 1
        assert each.learner
        assert any(word in each.source for word in ("20", "github.com"))


# Sections


def test_claims_of_one_sentence_are_in_one_row() -> None:
    results = [make_result(), make_result(STRONG), make_result("cifar10c")]
    text = sections.claims_section(results)
    assert text.count("Figure 3(a)") == 2  # PS and Meta-CP share a sentence
    assert text.count("Figure 8(b)") == 1
    row = next(line for line in text.splitlines() if "PS: the 90 % quantile" in line)
    assert row.count("**does not agree** (0.050, 100.0%)") == 2
    assert "The experiments *mini-ImageNet, Conv4, strong recipe* are not in the paper" in text


def test_a_claim_about_a_method_that_keeps_every_label_is_marked() -> None:
    def all_labels(method: str, delta: float) -> dict[str, Any]:
        return {"feasible": False, "size": 5.0} if method == "PS-Test" else {}

    alone = sections.claims_section([make_result(STRONG, all_labels)])
    assert "agrees (5.00 † against 2.01)" in alone
    both = sections.claims_section([make_result(STRONG, lacks_data("PS-Test", EVEN))])
    assert "cannot be checked (2.01 † against 2.01 †)" in both
    assert "cannot be checked (0.050, 100.0% †)" in both


def test_a_section_says_what_a_reader_must_know() -> None:
    result = make_result("cifar10c", errors({TIGHT: HIGH}), seeds=2)
    text = sections.experiment_section(result)
    assert "given these two learners" in text
    assert "Draws share tasks: each takes 500 of the same 700 calibration tasks and 50 of" in text
    assert "**Meta-PS tight violates its guarantee on these test tasks**" in text
    assert "Meta-PS even, grid" not in text
    heart = sections.experiment_section(make_result("heart"))
    assert "Draws share state-years: the test pool has 18 of them." in heart
    assert "given these" not in heart
    distinct = sections.experiment_section(make_result("heart-distinct"))
    assert "Draws share state-years: each divides the same 58 anew." in distinct


def test_a_guarantee_that_held_but_might_not_is_no_violation() -> None:
    result = make_result()
    for methods, above in zip(result.by_seed, (0, 1, 3), strict=True):  # of 20 tasks
        rows = methods[TIGHT, result.delta]
        error = np.where(rows.task < above, HIGH, LOW)
        methods[TIGHT, result.delta] = replace(rows, error=error)
    text = sections.experiment_section(result)
    assert "so that we cannot tell yet: Meta-PS tight (93.3 % within)." in text
    assert "violate" not in text
    broken = sections.experiment_section(make_result(change=errors({TIGHT: HIGH})))
    assert "we cannot tell yet" not in broken


def test_too_few_data_are_no_open_verdict() -> None:
    text = sections.experiment_section(make_result(change=lacks_data(EVEN)))
    row = next(line for line in text.splitlines() if line.startswith(f"| {EVEN} |"))
    assert row.startswith(f"| {EVEN} | 2.01 † | 0.050 |")
    assert row.endswith("| too few data |")
    assert "cannot tell" not in text
    assert "violate" not in text


def bank_result(above: int) -> Result:
    """Two seeds whose draws all have the same 20 tasks, of which some are above epsilon."""
    result = make_result("cifar10c", seeds=2)
    for methods in result.by_seed:
        for key, rows in methods.items():
            error = np.where(rows.task < above, HIGH, LOW) if key[0] == "PS" else rows.error
            threshold = rows.task / 20 if key[0] == "oracle" else rows.threshold
            methods[key] = replace(rows, error=error, threshold=threshold)
    result.tasks = [find_tasks(methods["oracle", result.delta]) for methods in result.by_seed]
    return result


def test_a_task_of_many_draws_counts_once() -> None:
    sure, unsure = bank_result(12), bank_result(6)
    repeated = [replace(result, tasks=None).line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in repeated] == ["violated", "violated"]
    # 6 of 20 tasks: mean 0.3, Student's t with 19 degrees of freedom gives a lower end of 0.08.
    lines = [result.line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in lines] == ["violated", "cannot tell yet"]
    assert lines[1] == replace(repeated[1], violated=False)  # and nothing else is changed
    assert "by **PS** in none of 1 (cannot tell yet:" in opening._state_baselines([unsure])
    text = opening._how_to_read([make_result(), unsure])
    assert "In *CIFAR10-C, ResNet-50*, the draws take their" in text
    assert "from one bank" not in opening._how_to_read([make_result()])


def test_a_verdict_on_shared_tasks_needs_every_seed() -> None:
    result = bank_result(0)
    result.tasks = [np.arange(80)] * 2  # as many tasks as rows
    for methods, above in zip(result.by_seed, (2, 0), strict=True):  # of 20 tasks
        rows = methods[JOINT, 0.1]
        error = np.where(rows.task < above, HIGH, LOW)
        methods[JOINT, 0.1] = replace(rows, error=error)
    pooled, line = replace(result, tasks=None).line(JOINT, 0.1), result.line(JOINT, 0.1)
    assert (pooled.tasks_within, pooled.verdict) == (0.95, "observed within")
    assert (line.tasks_within, line.verdict) == (0.95, "cannot tell yet")
    text = sections.experiment_section(result)
    assert "Meta-PS joint, delta = 0.1 (95.0 % within: 90.0 % and 100.0 % in the seeds)." in text
    assert "each test task counts once, and each seed by itself." in text


def test_the_first_draws_keep_their_tasks() -> None:
    result = bank_result(6)
    first = result.first_draws(3)
    assert (first.draws, first.seeds) == (3, 2)
    assert first.tasks is not None
    for tasks, rows, oracle in zip(
        first.tasks, first.rows("PS"), first.rows("oracle"), strict=True
    ):
        assert len(tasks) == len(rows) == 60
        np.testing.assert_array_equal(tasks / 20, oracle.threshold)
    assert first.line("PS").verdict == "cannot tell yet"
    assert make_result().first_draws(2).tasks is None


def test_thresholds_of_zero_are_counted() -> None:
    result = make_result(change=lambda method, delta: {"threshold": 0.0} if method == EVEN else {})
    assert "In 12 of 12 draws the threshold of Meta-PS even is zero" in (
        sections.experiment_section(result)
    )
