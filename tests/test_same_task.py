"""A task counts once and is new once, under whatever name it comes, and clusters count once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import metapac as mp
from metapac.data_checks import Contents, judge_copies
from metapac.evidence import draw_tasks, encode_evidence
from metapac.federated import make_message
from metapac.grouping import as_cluster, match_clusters
from metapac.inputs import fold_name, fold_names
from tests.helpers.calibrations import collect_evidence
from tests.helpers.oracles import FALSE_ALARM
from tests.helpers.tables import calibrate_table, evaluate_table

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
COMMUNES = [f"c{i}" for i in range(78)]


def draw(names: list[Any], digits: int = 16, examples: int = 143, rng: int = 0) -> pd.DataFrame:
    """Return scores that stay within the guarantee, so that a verdict on them is "holds"."""
    scores = np.random.default_rng(rng).beta(8, 1, len(names) * examples)
    return pd.DataFrame({"commune": np.repeat(names, examples), "score": scores.round(digits)})


def calibrate(frame: pd.DataFrame, **options: Any) -> mp.MetaPS:
    return mp.MetaPS(**LEVELS).calibrate(frame.score, frame.commune, **options)


SPELLINGS: dict[str, Any] = {
    "space": lambda i: f"c{i} ",
    "case": lambda i: f"C{i}",
    "zeros": lambda i: f"c{i:03d}",
    "width": lambda i: f"\N{FULLWIDTH LATIN SMALL LETTER C}{i}",
    "another name": lambda i: f"commune {i}",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_calibration_tasks_are_never_taken_for_new(spelling: str) -> None:
    known = draw(COMMUNES)
    promise = calibrate(known)
    renamed = known.assign(commune=np.repeat([SPELLINGS[spelling](i) for i in range(78)], 143))
    check = "duplicates" if spelling == "another name" else "task-names"
    calls: list[Any] = [
        lambda **k: mp.evaluate(promise, renamed.score, renamed.commune, **k),
        lambda **k: evaluate_table(promise, renamed, task="commune", score="score", **k),
        lambda **k: mp.Monitor(promise).add(renamed.score, renamed.commune, **k),
    ]
    for call in calls:
        with pytest.raises(mp.InvalidInput, match=rf"(?s)'c0'.*allow=\('{check}',\)"):
            call()
        call(allow=["task-names", "duplicates"])


def test_the_same_name_is_left_out_and_a_new_task_counts_once() -> None:
    promise, known, new = calibrate(draw(COMMUNES)), draw(COMMUNES), draw(["c3", "a"], rng=1)
    assert mp.evaluate(promise, new.score, new.commune).overlap == ("c3",)
    twice = pd.concat([new, new[143:].assign(commune="other")])
    with pytest.raises(mp.InvalidInput, match="'other' and 'a'"):
        mp.evaluate(promise, twice.score, twice.commune)
    again = mp.evaluate(promise, known.score, known.commune, allow=["overlap"])
    assert len(again.tasks) == 78  # of the same names, which the user takes for new


def test_training_and_pilot_tasks_are_recognised(tmp_path: Path) -> None:
    known, new = draw(COMMUNES), draw(["ELSE", "other"], rng=1)
    for role in ("trained_on", "pilot"):
        context = mp.Context(**{role: ["C7", "else"]})  # type: ignore[arg-type]
        with pytest.raises(mp.InvalidInput, match="'C7' and 'c7'"):
            calibrate(known, context=context)
        promise = calibrate(known, context=context, allow=["task-names"])
        with pytest.raises(mp.InvalidInput, match="'ELSE' and 'else'"):
            mp.evaluate(promise, new.score, new.commune)
        promise.save(tmp_path / "promise.json")
        assert mp.load(tmp_path / "promise.json").threshold_ == promise.threshold_


def test_hospitals_counted_twice() -> None:
    once = draw([f"hospital {i}" for i in range(15)], examples=400)
    twice = pd.concat([once, once.assign(commune=once.commune.str.replace("hospital ", "H-"))])
    for call in (calibrate, lambda f: calibrate_table(f, task="commune", score="score", **LEVELS)):
        with pytest.raises(mp.InvalidInput, match=r"'H-0' and 'hospital 0'|'hospital 0' and 'H-0'"):
            call(twice)
    assert len(calibrate(twice, allow=["duplicates"]).tasks_) == 30
    promise = calibrate(twice.assign(score=twice.score / (1 + (twice.commune < "a"))))
    for scale, name, known in ((1, "new", "'hospital 0'"), (3, "Hospital 0", "'Hospital 0'")):
        with pytest.raises(mp.InvalidInput, match=known):
            promise.add(once.score[:400] / scale, [name] * 400)


@pytest.mark.parametrize("per_class", [False, True])
def test_a_site_that_sends_two_files(tmp_path: Path, per_class: bool) -> None:
    agreed = mp.Guarantee(epsilon=0.2, alpha=0.2, delta=0.2, split="tight", per_class=per_class)
    rng, paths = np.random.default_rng(0), []
    for i in range(40):
        scores, labels = rng.beta(8, 1, 100), rng.integers(0, 2, 100) if per_class else None
        evidence = collect_evidence(agreed, scores, ["here"] * 100, labels)
        make_message(f"site {i}", agreed, evidence).save(tmp_path / f"{i}.json")
        paths.append(tmp_path / f"{i}.json")
    assert len(mp.combine_sites(paths).tasks_) == 40
    make_message("elsewhere", agreed, evidence).save(tmp_path / "copy.json")
    with pytest.raises(mp.InvalidInput, match="'site 39' and 'elsewhere'"):
        mp.combine_sites([*paths, tmp_path / "copy.json"])
    both = mp.combine_sites([*paths, tmp_path / "copy.json"], allow=["duplicates"])
    assert len(both.tasks_) == 41


def contents(rng: Any, tasks: int, sizes: tuple[int, int], draw_scores: Any) -> Contents:
    """Return what is stored of tasks whose difficulty differs."""
    numbers = rng.integers(*sizes, tasks)
    scores = [np.asarray(draw_scores(rng, n, rng.normal()), float) for n in numbers]
    ranges = np.array([[part.min(), part.max()] for part in scores])
    return Contents(np.array([f"{rng.random()}" for _ in range(tasks)]), numbers, ranges)


def logistic(odds: Any) -> Any:
    return 1 / (1 + np.exp(-odds))


HONEST: dict[str, Any] = {
    **{
        f"{d} digits": lambda r, n, t, d=d: logistic(r.normal(t, 1, n)).round(d)
        for d in range(1, 7)
    },
    "narrow": lambda r, n, t: np.round(0.5 + 0.1 * t + r.uniform(-0.1, 0.1, n), 2),
    "votes": lambda r, n, t: r.binomial(150, r.beta(3, 1.5, n)) / 150,
    "float16": lambda r, n, t: np.float16(r.beta(3, 1.5, n)),
    "saturated": lambda r, n, t: np.float32(logistic(np.float32(r.normal(8 + 4 * t, 8, n)))),
    "clipped": lambda r, n, t: np.log(logistic(r.normal(8 + 8 * t, 12, n)).clip(1e-7, 1 - 1e-7)),
    "cells": lambda r, n, t: logistic(np.array([0.31, 0.77, 1.3])[r.integers(0, 3, (n, 4))].sum(1)),
    "continuous": lambda r, n, t: r.beta(3, 1.5, n),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_tasks_are_not_taken_for_copies(kind: str) -> None:
    small, large, mixed = (20, 21), (100, 101), (100, 190)
    for known, new, sizes in ((30, 30, small), (30, 1000, small), (60, 60, large), (80, 40, mixed)):
        for seed in range(10):
            rng = np.random.default_rng(seed)
            old = contents(rng, known, sizes, HONEST[kind])
            assert judge_copies(old) is None
            assert judge_copies(contents(rng, new, sizes, HONEST[kind]), old) is None


def test_all_tasks_counted_several_times() -> None:
    for digits, times, seed in itertools.product((16, 5), (2, 5), range(10)):
        rng = np.random.default_rng(seed)
        once = contents(rng, 15, (400, 401), lambda r, n, t: r.beta(3, 1.5, n).round(digits))
        names = np.arange(15 * times)
        sizes, ranges = np.tile(once.sizes, times), np.tile(once.ranges, (times, 1))
        assert judge_copies(Contents(names, sizes, ranges)) is not None


def test_tasks_of_a_single_score_have_no_range_to_compare() -> None:
    low = np.repeat(np.random.default_rng(0).random(10), 2)
    sizes, names = np.full(20, 50), np.arange(20)
    assert judge_copies(Contents(names, sizes, np.column_stack([low, low]))) is None
    assert judge_copies(Contents(names, sizes, np.column_stack([low, low + 1]))) is not None


def add_second_half(frame: pd.DataFrame) -> mp.MetaPS:
    first = frame.commune.isin(COMMUNES[:40])
    promise = mp.MetaPS(**LEVELS | {"alpha": 0.2})
    promise.calibrate(frame.score[first], frame.commune[first])
    return promise.add(frame.score[~first].astype(np.float32), frame.commune[~first])


def calibrate_classes(frame: pd.DataFrame) -> mp.MetaPS:
    labels = np.where(np.arange(len(frame)) % 3, "no", "yes")
    method = mp.MetaPS(epsilon=0.2, alpha=0.2, delta=0.2, per_class=True)
    return method.calibrate(frame.score, frame.commune, labels)


ROADS: list[Callable[[pd.DataFrame], mp.MetaPS]] = [
    add_second_half,
    calibrate_classes,
    lambda f: calibrate(f, clusters={name: f"owner of {name}" for name in COMMUNES}),
    lambda f: calibrate_table(f, task="commune", score="score", **LEVELS),
    lambda f: calibrate(f.assign(score=f.score.astype(np.float32))),
]


def test_any_single_task_is_recognised_from_the_file(tmp_path: Path) -> None:
    known, others = draw(COMMUNES), draw(["x", "y"], rng=1)
    for road in ROADS:
        road(known).save(tmp_path / "promise.json")
        promise = mp.load(tmp_path / "promise.json")

        def judge(frame: pd.DataFrame) -> int:
            labels = np.where(np.arange(len(frame)) % 3, "no", "yes") if promise.classes_ else None
            clusters = None if promise.clusters_ is None else {name: name for name in "axy"}
            result = mp.evaluate(promise, frame.score, frame.commune, labels, clusters=clusters)
            return len(result.tasks)

        for name in ("c1", "c50", "c77"):
            copied = known[known.commune == name].assign(commune="a")
            with pytest.raises(mp.InvalidInput, match=f"'a' and '{name}'"):
                judge(pd.concat([others, copied.iloc[::-1]]))
        assert judge(others) == 2


def test_coarse_scores_betray_a_whole_table_but_no_single_task() -> None:
    known = draw(COMMUNES, digits=3)
    known = known[np.random.default_rng(0).random(len(known)) < 0.9]  # so that sizes differ
    promise = calibrate(known)
    copy = known[known.commune == "c0"].assign(commune="x")
    one = pd.concat([draw([f"n{i}" for i in range(30)], 3, rng=1), copy])
    mp.evaluate(promise, one.score, one.commune)
    with pytest.raises(mp.InvalidInput, match="allow=\\('duplicates',\\)"):
        mp.evaluate(promise, known.score, "new " + known.commune)


SAME_NAMES: list[tuple[Any, Any]] = [
    ("Ohio", " ohio\t"), ("site 007", "SITE 7"), ("1", "1.0"), ("1", "01.00"), (-3, "-3.0"),
    ("2020-01", "2020-1"), ("a\N{ZERO WIDTH SPACE}b", "ab"), ("Site 07", "SITE7"), ("0", "00"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"), (1, "001"),
]  # fmt: skip
OTHER_NAMES = [
    ("a-b", "a b"), ("1 0", "10"), ("0 10", "1 0"), ("1.05", "1.5"), ("1.5", "1.50"), ("10", "1"),
    ("v1.0", "v1"), ("", "0"),
]  # fmt: skip


@given(st.lists(st.text(alphabet="aA0 17.\n\t\u00e9", max_size=6)))
def test_the_rule_for_names(names: list[str]) -> None:
    assert fold_names(names) == [fold_name(name) for name in names]
    assert [pair for pair in SAME_NAMES if fold_name(pair[0]) != fold_name(pair[1])] == []
    assert [pair for pair in OTHER_NAMES if fold_name(pair[0]) == fold_name(pair[1])] == []


def test_tasks_that_share_a_range_by_design_pass() -> None:
    known, new = draw(COMMUNES), draw(["a", "b"], rng=1)
    constant = pd.DataFrame({"commune": ["x"] * 50 + ["y"] * 50, "score": 0.123456789})
    middle = new[:143].sort_values("score").drop(index=new.score[:143].sort_values().index[70])
    table = pd.concat([new, constant, middle.assign(commune="z")])  # z has one example less than a
    assert len(mp.evaluate(calibrate(known), table.score, table.commune).tasks) == 5
    rng = np.random.default_rng(0)
    for name in COMMUNES[::3]:  # two values, as after adaptation to examples of one label
        known.loc[known.commune == name, "score"] = rng.choice([0.3141592653, 0.8141592653], 143)
    assert len(calibrate(known).tasks_) == 78


def test_clusters_are_compared_by_the_same_rule() -> None:
    promise = calibrate(draw(COMMUNES), clusters={name: f"owner {name}" for name in COMMUNES})
    new = draw(["x", "y"], rng=1)
    owners = {"x": "Owner c7", "y": "another"}
    with pytest.raises(mp.InvalidInput, match="1 cluster .*'Owner c7' and 'owner c7'"):
        mp.evaluate(promise, new.score, new.commune, clusters=owners)


# One task of each cluster: exact by enumeration, blind to scores, the same on every route.
PROMISE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


def made(clusters: int = 40, tasks: int = 5, examples: int = 20, rng: int = 0) -> pd.DataFrame:
    """Return examples of tasks in clusters whose scores have a level of their own."""
    generator = np.random.default_rng(rng)
    level = generator.random(clusters).repeat(tasks * examples)
    task = np.arange(clusters * tasks).repeat(examples)
    frame = pd.DataFrame({"score": level + generator.random(len(task))})
    return frame.assign(alphabet=[f"a{i // tasks}" for i in task], task=[f"t{i}" for i in task])


# The counterexample. A cluster is good with probability 1 - b and bad with probability b. The
# tasks of a bad cluster miss every time at a positive threshold, those of a good cluster never.
# Every task of a cluster is thus the same, and C clusters with M tasks each are C tasks, not C M.
def breaks(counts_bad: int, clusters: int, tasks: int, *, by_cluster: bool) -> bool:
    """Return whether the threshold is positive, which breaks all tasks of bad clusters."""
    names = np.arange(clusters * tasks)
    scores = np.where(names // tasks < counts_bad, 0.0, 1.0).repeat(20)
    method = mp.MetaPS(**PROMISE, on_infeasible="trivial", split="tight")
    order = np.random.default_rng(0).permutation(len(scores))
    homes = (names // tasks).repeat(20)[order] if by_cluster else None
    jitter = 1e-9 * np.random.default_rng(1).random(len(scores))
    method.calibrate(
        scores[order] + jitter, names.repeat(20)[order], clusters=homes, allow=["duplicates"]
    )
    return method.threshold_ > 0.5


def failure(bad_share: Fraction, clusters: int, tasks: int, *, by_cluster: bool) -> Fraction:
    """Return the exact probability, over the clusters, of a threshold that breaks bad clusters."""
    total = Fraction(0)
    for count in range(clusters + 1):
        if breaks(count, clusters, tasks, by_cluster=by_cluster):
            choices = len([*itertools.combinations(range(clusters), count)])
            total += choices * bad_share**count * (1 - bad_share) ** (clusters - count)
    return total


def test_the_guarantee_holds_exactly_by_cluster_and_fails_if_every_task_counts() -> None:
    # More than alpha = 0.2 of new tasks are broken by a positive threshold, so that it may occur
    # with probability delta = 0.1 at most. Nothing is sampled: all numbers of bad clusters are
    # enumerated with their binomial probability.
    bad = Fraction(21, 100)
    valid, invalid = (failure(bad, 14, 50, by_cluster=by_cluster) for by_cluster in (True, False))
    assert 0 < valid <= Fraction(1, 10)
    assert invalid > Fraction(4, 10)
    assert (round(float(valid), 3), round(float(invalid), 3)) == (0.037, 0.411)  # dependent.md


def test_pooling_the_examples_of_a_cluster_hides_its_bad_tasks() -> None:
    # Every cluster has 10 tasks of which 3 miss always at threshold 1, with few examples: pooled,
    # they are 30 of 1000 examples. With epsilon = 0.2 each pooled "task" is fine, and 30 % of new
    # tasks are broken, in every calibration: the failure probability is 1, not delta.
    sizes = np.tile([10, 10, 10, *[139] * 6, 136], 40)
    ids = np.arange(400).repeat(sizes)
    scores = (ids % 10 >= 3) + 1e-9 * np.random.default_rng(0).random(len(ids))
    pooled = mp.MetaPS(**PROMISE).calibrate(scores, ids // 10)
    assert pooled.threshold_ >= 1.0  # 3 of 10 tasks break, and alpha is 0.2
    by_cluster = mp.MetaPS(**PROMISE).calibrate(scores, ids, clusters=ids // 10)
    assert by_cluster.threshold_ < 1.0


@given(
    names=st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True),
    seed=st.integers(0, 20),
    data=st.data(),
)
def test_one_task_of_each_cluster(names: list[int], seed: int, data: Any) -> None:
    clusters = [data.draw(st.sampled_from("abc")) for _ in names]
    drawn = draw_tasks(names, clusters, seed)
    assert sorted(clusters[i] for i in drawn) == sorted(set(clusters))
    assert drawn == sorted(drawn)
    order = data.draw(st.permutations(range(len(names))))
    again = draw_tasks([names[i] for i in order], [clusters[i] for i in order], seed)
    assert {names[order[i]] for i in again} == {names[i] for i in drawn}
    kept = [i for i, cluster in enumerate(clusters) if cluster != "a"]  # without a cluster
    rest = draw_tasks([names[i] for i in kept], [clusters[i] for i in kept], seed)
    assert {names[kept[i]] for i in rest} == {names[i] for i in drawn if clusters[i] != "a"}


def test_tasks_of_a_cluster_are_equally_likely_and_clusters_independent() -> None:
    names = [f"t{i}" for i in range(6)]
    picks = [tuple(draw_tasks(names, ["x", "x", "x", "y", "y", "y"], seed)) for seed in range(9000)]
    counts = Counter(picks)
    assert len(counts) == 9
    assert stats.chisquare([*counts.values()]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("per_class", [False, True])
def test_it_is_calibration_on_the_tasks_drawn_whatever_the_scores(per_class: bool) -> None:
    frame = made()
    labels = np.arange(len(frame)) % 2 if per_class else None

    def calibrate(frame: pd.DataFrame, labels: Any, **options: Any) -> mp.MetaPS:
        method = mp.MetaPS(**PROMISE, per_class=per_class, on_infeasible="trivial")
        return method.calibrate(frame.score, frame.task, labels, **options)

    method = calibrate(frame, labels, clusters=frame.alphabet)
    assert "of the 40 calibration clusters and of one task in each" in method.promise_
    assert method.clusters_ is not None
    assert len(method.tasks_) == len({*method.clusters_}) == 40
    homes = dict(zip(frame.task, frame.alphabet, strict=True))
    assert [homes[task] for task in method.tasks_] == method.clusters_.tolist()
    assert calibrate(frame, labels, clusters=homes).promise_ == method.promise_
    used = frame.task.isin(method.tasks_.tolist()).to_numpy()
    alone = calibrate(frame[used], None if labels is None else labels[used])
    assert method._result()[1] == pytest.approx(alone._result()[1], rel=0, abs=0)
    assert alone.clusters_ is None
    for scores, rng, is_same in ((-frame.score, 0, True), (frame.score, 1, False)):
        other = calibrate(frame.assign(score=scores), labels, clusters=frame.alphabet, rng=rng)
        assert (other.tasks_.tolist() == method.tasks_.tolist()) == is_same


def test_tasks_of_few_examples_are_left_out_after_the_draw() -> None:
    frame = made()
    frame = frame[(frame.task != "t0") | (frame.groupby("task").cumcount() < 3)]
    left_out = set()
    for rng in range(30):
        method = mp.MetaPS(**PROMISE, min_examples=10).calibrate(
            frame.score, frame.task, clusters=frame.alphabet, rng=rng
        )
        assert method.clusters_ is not None
        assert len(method.clusters_) == len(method.tasks_) == 40 - int(method.left_out_)
        assert ("a0" in method.clusters_) == (method.left_out_ == 0)
        left_out.add(int(method.left_out_))
    assert left_out == {0, 1}
    assert "one task in each with at least 10 examples" in method.promise_


def test_new_clusters_are_added_as_if_from_scratch() -> None:
    frame = made()
    old = frame.alphabet.isin([f"a{i}" for i in range(25)])
    whole, grown = (
        mp.MetaPS(**PROMISE).calibrate(part.score, part.task, clusters=part.alphabet, rng=7)
        for part in (frame, frame[old])
    )
    grown.add(frame.score[~old], frame.task[~old], clusters=frame.alphabet[~old])
    assert (grown.threshold_, grown.promise_) == (whole.threshold_, whole.promise_)
    assert encode_evidence(grown._evidence) == encode_evidence(whole._evidence)


def test_too_few_clusters_are_counted_and_none_may_be_trained_on() -> None:
    frame = made()
    few = mp.MetaPS(**PROMISE | {"delta": 1e-6})
    with pytest.raises(
        mp.InfeasibleGuarantee, match=r"are 40 tasks\. .*one of 40 clus.* 200 tasks"
    ):
        few.calibrate(frame.score, frame.task, clusters=frame.alphabet)
    drawn = mp.MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet).tasks_
    other = next(task for task in frame.task if task not in drawn.tolist())
    about = mp.Context(trained_on=[other])
    with pytest.raises(mp.InvalidInput, match=f"trained_on and .* share 1 task: '{other}'"):
        few.calibrate(frame.score, frame.task, clusters=frame.alphabet, context=about)


def test_names_of_clusters_are_those_of_tables() -> None:
    values = [np.int32(3), 3.0, np.str_("a"), True, np.datetime64("2020-01-02"), 2.5]
    assert [as_cluster(value) for value in values] == [3, 3, "a", "True", "2020-01-02", "2.5"]
    days = np.array(["2020-01-02", "2020-01-02", "2021-05-06T10:00"], "M8[ns]")
    tasks = np.array(["x", "x", "y"], object)
    assert match_clusters(["x", "y"], tasks, days) == ["2020-01-02", "2021-05-06T10:00:00"]


def test_a_verdict_rests_on_one_task_of_each_new_cluster() -> None:
    frame, new = made(), made(rng=1).replace({"alphabet": r"^a", "task": r"^t"}, "n", regex=True)
    promise = mp.MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet)
    both = pd.concat([new, frame[frame.task.isin(["t0", "t1"])]])  # of a calibrated cluster
    result = mp.evaluate(promise, both.score, both.task, clusters=both.alphabet)
    homes = dict(zip(both.task, both.alphabet, strict=True))
    assert sorted(homes[task] for task in result.tasks) == sorted(set(new.alphabet))
    assert {*result.overlap} == {"t0", "t1"}
    with pytest.raises(
        mp.InvalidInput, match="clusters must be passed, since the guarantee is for"
    ):
        mp.evaluate(promise, new.score, new.task)
