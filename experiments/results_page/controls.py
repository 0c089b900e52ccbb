"""Controls: what shift, chance, the choice of delta and the predictor of Meta-CP account for."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page.markdown import (
    SHORT,
    all_or,
    enumerate_names,
    error,
    error_name,
    first_draws,
    join,
    link,
    name_titles,
    percent,
    size,
    span,
    table,
    within,
)
from experiments.results_page.splits import JOINT, SPLITS
from experiments.results_page.stored import Evaluation, Result
from metapac.fewshot.study.methods import SECOND_DELTA
from metapac.fewshot.study.summary import CONFIDENCE, WITHIN, MethodSummary

NO_SHIFT, SEEN = "no-shift", "seen"
PS, PS_TEST, META_CP = "PS", "PS-Test", "Meta-CP"
POOLS = ("test pool", "no shift")


def find(results: Sequence[Result]) -> str:
    """Return what the control without shift says."""
    known = [result for result in results if NO_SHIFT in result.controls]
    same = [result.controls[NO_SHIFT] for result in known]
    lines = [each.line(name) for each in same for name in SPLITS]
    met = sum(line.verdict == WITHIN for line in lines)
    return (
        "On new tasks of the calibration pool, where there is no shift, the criterion of Meta-PS "
        f"is met, at {percent(CONFIDENCE)} confidence, in {all_or(met, len(lines))} combinations "
        "of split and experiment. For the joint split, "
        f"{_tasks_within(same)} of the tasks are within epsilon there, and {_tasks_within(known)} "
        "of the tasks of the test pool."
    )


def _tasks_within(evaluations: Sequence[Evaluation]) -> str:
    return span([each.line(JOINT).tasks_within for each in evaluations], ".1%")


def section(results: Sequence[Result]) -> str:
    """Return the controls, each with its table."""
    return join(
        [
            "## Controls",
            _shift(results),
            _chance(results),
            _ps_test(results),
            _predictor(results),
        ]
    )


def _shift(results: Sequence[Result]) -> str:
    known = [result for result in results if NO_SHIFT in result.controls]
    methods = (PS, *SPLITS)
    rows = [
        [link(result.title) if i == 0 else "", method, *_with_and_without(result, method)]
        for result in known
        for i, method in enumerate(methods)
    ]
    draws = first_draws([result.controls[NO_SHIFT] for result in known])
    return join(
        [
            "### New tasks without a shift",
            "In these experiments, test tasks come from other classes, relations or state-years "
            "than calibration tasks, as in the paper. The guarantee assumes that both come from "
            "one distribution. So the same learners were also evaluated on new tasks of the "
            "calibration pool, where a method must keep its guarantee. What a method loses on the "
            "test pool beyond chance is then due to the shift. "
            f"{_state_shift(known)} The table shows *tasks within*: for the test pool in all "
            f"draws, without a shift in {draws}.",
            table(["experiment", "method", *POOLS], rows, aligned="ll"),
            f"There is no such control for {_name_others(results, NO_SHIFT)}: there, calibration "
            "tasks and test tasks are drawn alike.",
        ]
    )


def _name_others(results: Sequence[Result], control: str) -> str:
    return name_titles([result for result in results if control not in result.controls])


def _with_and_without(result: Result, name: str) -> list[str]:
    return [within(each.line(name)) for each in (result, result.controls[NO_SHIFT])]


def _state_shift(known: Sequence[Result]) -> str:
    """Return where the test pool is harder, by the mean error of PS, which pools all examples."""
    means = {
        result.title: (result.line(PS).error_mean, result.controls[NO_SHIFT].line(PS).error_mean)
        for result in known
    }
    harder = [
        f"*{title}* ({test:.3f} against {same:.3f})"
        for title, (test, same) in means.items()
        if test > same
    ]
    if not harder:
        return "By the mean error of PS, the test pool is nowhere harder than the calibration pool."
    return (
        "By the mean error of PS, the test pool is harder than the calibration pool in "
        f"{enumerate_names(harder)}."
    )


def _chance(results: Sequence[Result]) -> str:
    lines = [line for result in results for line in result.lines() if line.method in SPLITS]
    gaps = [line.draws_within - line.draws_expected for line in lines]
    return join(
        [
            "### Draws within, by chance",
            "A draw has few new tasks. So a draw may have more than alpha of them above epsilon "
            "although its threshold is good, and the share of *draws within* may be below "
            "1 - delta although the guarantee holds. The column *by chance* in the tables below is "
            "the share to expect if all thresholds were equally good: the binomial probability, "
            "given the share of all tasks within. Over all splits, deltas and experiments, the "
            "share of draws within differs from it by "
            f"{span([100 * gap for gap in gaps], '+.1f')} points. A large difference "
            "would mean that some draws have worse thresholds than others.",
        ]
    )


def _ps_test(results: Sequence[Result]) -> str:
    at = f"delta = {SECOND_DELTA:g}"
    sizes = [result.compare(PS_TEST, JOINT, SECOND_DELTA) for result in results]
    header = ["experiment", "labels", "PS-Test at the guarantee's delta", f"PS-Test, {at}"]
    header += ["tasks within", f"{JOINT}, {at}", "tasks within"]
    smaller, larger = sum(each.high < 0 for each in sizes), sum(each.low > 0 for each in sizes)
    return join(
        [
            f"### {PS_TEST} at {at}",
            "PS-Test calibrates on labels of the new task itself. At the paper's delta it often "
            f"has too few of them and keeps every label ({SHORT}), which makes it look worse than "
            f"it is. At {at} it promises that each new task is within epsilon with probability "
            f"{1 - SECOND_DELTA:g} over its labels. Compared draw by draw, its sets are then "
            f"smaller than those of {JOINT}, at {percent(CONFIDENCE)} confidence, in "
            f"{all_or(smaller, len(sizes))} experiments, and larger in "
            f"{all_or(larger, len(sizes))}. Meta-PS needs none of these labels.",
            table(header, [_ps_test_row(result) for result in results]),
        ]
    )


def _ps_test_row(result: Result) -> list[str]:
    loose, joint = (result.line(name, SECOND_DELTA) for name in (PS_TEST, JOINT))
    return [
        link(result.title),
        f"{result.experiment.labelled_examples * (result.experiment.ways or 1)}",
        size(result.line(PS_TEST)),
        size(loose),
        within(loose),
        size(joint),
        within(joint),
    ]


def _predictor(results: Sequence[Result]) -> str:
    known = [result for result in results if SEEN in result.controls]
    pairs = [_predictor_lines(result) for result in known]
    columns = ["mean size", error_name(known[0].guarantee), "tasks within"]
    header = ["experiment", *(f"{pool}: {c}" for pool in ("held out", "seen") for c in columns)]
    rows = [
        [link(result.title), *(cell for line in pair for cell in _cells(line))]
        for result, pair in zip(known, pairs, strict=True)
    ]
    draws = first_draws([result.controls[SEEN] for result in known])
    return join(
        [
            "### Meta-CP's predictor on data held out from training",
            "Meta-CP predicts a quantile of the scores of each task from its labelled examples. "
            "Fisch et al. train that predictor on scores of classes that their network was not "
            "trained on, by dividing the training classes into folds. Here it is trained on the "
            "validation pool, which the learner was not trained on either (*held out*). The "
            "control trains it on the learner's training pool (*seen*). Both are evaluated on "
            f"{draws}, so that the numbers *held out* differ a little from those of all draws in "
            "the other tables.",
            table(header, rows),
            f"{_compare_predictors(pairs)} The control was not run for "
            f"{_name_others(results, SEEN)}.",
        ]
    )


def _predictor_lines(result: Result) -> tuple[MethodSummary, MethodSummary]:
    seen = result.controls[SEEN]
    return result.first_draws(seen.draws).line(META_CP), seen.line(META_CP)


def _cells(line: MethodSummary) -> list[str]:
    return [size(line), error(line), within(line)]


def _compare_predictors(pairs: Sequence[tuple[MethodSummary, MethodSummary]]) -> str:
    """Return whether the shares of tasks within differ beyond their intervals."""
    ends = [(one.tasks_within_interval, two.tasks_within_interval) for one, two in pairs]
    more = sum(unseen[0] > seen[1] for unseen, seen in ends)
    fewer = sum(unseen[1] < seen[0] for unseen, seen in ends)
    met = sum(unseen.verdict == WITHIN for unseen, _ in pairs)
    if more or fewer:
        words = (
            f"With data held out, more tasks are within epsilon in {all_or(more, len(pairs))} "
            f"experiments and fewer in {all_or(fewer, len(pairs))}; elsewhere intervals overlap."
        )
    else:
        words = "There is no clear difference: the intervals of *tasks within* overlap in all "
        words += f"{len(pairs)} experiments."
    return f"{words} Meta-CP meets the criterion of Meta-PS in {all_or(met, len(pairs))}."
