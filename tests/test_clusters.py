"""One task of each cluster: exact by enumeration, blind to scores, the same on every route."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Context, InfeasibleGuarantee, InvalidInput, MetaPS, evaluate, load
from metapac.evidence import draw_tasks, encode_evidence
from metapac.grouping import as_cluster, match_clusters

FALSE_ALARM = 1e-6
PROMISE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.2, "delta": 0.1}


def made(clusters: int = 40, tasks: int = 5, examples: int = 20, rng: int = 0) -> pd.DataFrame:
    """Return examples of tasks in clusters whose scores have a level of their own."""
    generator = np.random.default_rng(rng)
    level = generator.random(clusters).repeat(tasks * examples)
    task = np.arange(clusters * tasks).repeat(examples)
    return pd.DataFrame(
        {
            "alphabet": [f"a{i}" for i in range(clusters) for _ in range(tasks * examples)],
            "task": [f"t{i}" for i in task],
            "score": level + generator.random(len(task)),
        }
    )


# The counterexample. A cluster is good with probability 1 - b and bad with probability b. The
# tasks of a bad cluster miss every time at a positive threshold, those of a good cluster never.
# Every task of a cluster is thus the same, and C clusters with M tasks each are C tasks, not C M.
def breaks(counts_bad: int, clusters: int, tasks: int, *, by_cluster: bool) -> bool:
    """Return whether the threshold is positive, which breaks all tasks of bad clusters."""
    bad = np.arange(clusters) < counts_bad
    names = np.arange(clusters * tasks)
    scores = np.where(bad.repeat(tasks), 0.0, 1.0).repeat(20)
    ids, home = names.repeat(20), (names // tasks).repeat(20)
    method = MetaPS(**PROMISE, on_infeasible="trivial", split="tight")
    order = np.random.default_rng(0).permutation(len(ids))
    method.calibrate(
        scores[order] + 1e-9 * np.random.default_rng(1).random(len(ids)),
        ids[order],
        clusters=home[order] if by_cluster else None,
        allow=["duplicates"],
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
    assert (round(float(valid), 3), round(float(invalid), 3)) == (0.037, 0.411)  # guarantee.md


def test_pooling_the_examples_of_a_cluster_hides_its_bad_tasks() -> None:
    # Every cluster has 10 tasks of which 3 miss always at threshold 1, with few examples: pooled,
    # they are 30 of 1000 examples. With epsilon = 0.2 each pooled "task" is fine, and 30 % of new
    # tasks are broken, in every calibration: the failure probability is 1, not delta.
    sizes = [10, 10, 10, *[139] * 6, 136]
    scores, ids, home = [], [], []
    for cluster in range(40):
        for task, size in enumerate(sizes):
            scores += [0.0 if task < 3 else 1.0] * size
            ids += [cluster * 10 + task] * size
            home += [cluster] * size
    jitter = 1e-9 * np.random.default_rng(0).random(len(scores))
    pooled = MetaPS(**PROMISE).calibrate(np.array(scores) + jitter, home)
    assert pooled.threshold_ >= 1.0  # 3 of 10 tasks break, and alpha is 0.2
    by_cluster = MetaPS(**PROMISE).calibrate(np.array(scores) + jitter, ids, clusters=home)
    assert by_cluster.threshold_ < 1.0


@given(
    names=st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True),
    seed=st.integers(0, 20),
    data=st.data(),
)
def test_one_task_of_each_cluster_whatever_the_order(
    names: list[int], seed: int, data: st.DataObject
) -> None:
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


def test_the_draw_does_not_look_at_scores() -> None:
    frame = made()
    one = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet)
    two = MetaPS(**PROMISE).calibrate(-frame.score, frame.task, clusters=frame.alphabet)
    assert one.tasks_.tolist() == two.tasks_.tolist()
    other = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet, rng=1)
    assert one.tasks_.tolist() != other.tasks_.tolist()


@pytest.mark.parametrize("per_class", [False, True])
def test_it_is_calibration_on_the_tasks_drawn(per_class: bool) -> None:
    frame = made()
    labels = np.arange(len(frame)) % 2 if per_class else None
    method = MetaPS(**PROMISE, per_class=per_class, on_infeasible="trivial")
    method.calibrate(frame.score, frame.task, labels, clusters=frame.alphabet)
    assert method.clusters_ is not None
    assert len(method.tasks_) == len({*method.clusters_}) == 40
    homes = dict(zip(frame.task, frame.alphabet, strict=True))
    assert [homes[task] for task in method.tasks_] == method.clusters_.tolist()
    used = frame.task.isin(method.tasks_.tolist()).to_numpy()
    alone = MetaPS(**PROMISE, per_class=per_class, on_infeasible="trivial")
    alone.calibrate(frame.score[used], frame.task[used], None if labels is None else labels[used])
    assert method._result()[1] == pytest.approx(alone._result()[1], rel=0, abs=0)
    assert alone.clusters_ is None


def test_tasks_of_few_examples_are_left_out_after_the_draw() -> None:
    frame = made()
    small = frame.task == "t0"
    frame = frame[~small | (frame.groupby("task").cumcount() < 3)]
    for rng in range(30):
        method = MetaPS(**PROMISE, min_examples=10).calibrate(
            frame.score, frame.task, clusters=frame.alphabet, rng=rng
        )
        assert method.clusters_ is not None
        assert len(method.clusters_) == len(method.tasks_) == 40 - int(method.left_out_)
        if method.left_out_:
            break
    assert method.left_out_ == 1
    assert method.clusters_ is not None
    assert "a0" not in method.clusters_
    assert "one task in each with at least 10 examples" in method.promise_


def test_new_clusters_are_added_as_if_from_scratch() -> None:
    frame = made()
    old = frame.alphabet.isin([f"a{i}" for i in range(25)])
    grown = MetaPS(**PROMISE).calibrate(
        frame.score[old], frame.task[old], clusters=frame.alphabet[old], rng=7
    )
    grown.add(frame.score[~old], frame.task[~old], clusters=frame.alphabet[~old])
    whole = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet, rng=7)
    assert (grown.threshold_, grown.tasks_.tolist()) == (whole.threshold_, whole.tasks_.tolist())
    assert grown.promise_ == whole.promise_
    assert encode_evidence(grown._evidence) == encode_evidence(whole._evidence)
    more = {"more": [0.5] * 20}
    with pytest.raises(InvalidInput, match="clusters holds 'a3', which was calibrated already"):
        grown.add(more["more"], ["new"] * 20, clusters=["a3"] * 20, allow=["duplicates"])
    with pytest.raises(InvalidInput, match="here only the old tasks have them"):
        grown.add(more["more"], ["new"] * 20, allow=["duplicates"])
    with pytest.raises(InvalidInput, match="here only the new tasks have them"):
        MetaPS(**PROMISE).calibrate(frame.score, frame.task).add(
            more["more"], ["new"] * 20, clusters=["b"] * 20, allow=["duplicates"]
        )


def test_the_sentence_speaks_of_new_clusters_and_the_file_keeps_them(tmp_path: Path) -> None:
    frame, path = made(), tmp_path / "promise.json"
    about = Context(cluster="alphabet", unit="drawing")
    method = MetaPS(**PROMISE).calibrate(
        frame.score, frame.task, clusters=frame.alphabet, rng=3, context=about
    )
    assert "40 calibration alphabets and of one task in each" in method.promise_
    assert "new drawings of new alphabets" in method.explain()
    plain = MetaPS(**PROMISE).calibrate(frame.score, frame.task)
    assert "alphabet" not in str(plain) + plain.explain()
    method.save(path)
    loaded = load(path)
    assert (str(loaded), loaded.explain()) == (str(method), method.explain())
    assert (loaded.clusters_ == method.clusters_).all()
    stored = json.loads(path.read_text())["evidence"]["clusters"]
    assert (stored["tasks"], stored["rng"]) == (200, 3)
    homes = dict(zip(frame.task, frame.alphabet, strict=True))
    by_task = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=homes, rng=3)
    assert by_task.tasks_.tolist() == method.tasks_.tolist()


def test_too_few_clusters_are_counted_as_clusters() -> None:
    frame = made()
    with pytest.raises(
        InfeasibleGuarantee,
        match=r"but there are 40 tasks\. .* Each task counted here stands for one of 40 clusters, "
        r"which hold 200 tasks in all: to add a task, add a cluster\.",
    ):
        MetaPS(epsilon=0.2, alpha=0.2, delta=1e-6).calibrate(
            frame.score, frame.task, clusters=frame.alphabet
        )


def test_no_task_of_a_cluster_may_be_trained_on() -> None:
    frame = made()
    drawn = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet).tasks_
    other = next(task for task in frame.task if task not in drawn.tolist())
    with pytest.raises(
        InvalidInput, match=f"trained_on and the calibration tasks share 1 task: '{other}'"
    ):
        MetaPS(**PROMISE).calibrate(
            frame.score, frame.task, clusters=frame.alphabet, context=Context(trained_on=[other])
        )


def test_names_of_clusters_are_those_of_tables() -> None:
    values = [np.int32(3), 3.0, np.str_("a"), True, np.datetime64("2020-01-02"), 2.5]
    assert [as_cluster(value) for value in values] == [3, 3, "a", "True", "2020-01-02", "2.5"]
    days = np.array(["2020-01-02", "2020-01-02", "2021-05-06T10:00"], "M8[ns]")
    tasks = np.array(["x", "x", "y"], object)
    assert match_clusters(["x", "y"], tasks, days) == ["2020-01-02", "2021-05-06T10:00:00"]
    with pytest.raises(InvalidInput, match="rng must be a whole number from 0"):
        draw_tasks(["a"], ["b"], -1)


def test_a_verdict_rests_on_one_task_of_each_new_cluster() -> None:
    frame, new = made(), made(rng=1).replace({"alphabet": r"^a", "task": r"^t"}, "n", regex=True)
    promise = MetaPS(**PROMISE).calibrate(frame.score, frame.task, clusters=frame.alphabet)
    both = pd.concat([new, frame[frame.task.isin(["t0", "t1"])]])  # of a calibrated cluster
    result = evaluate(promise, both.score, both.task, clusters=both.alphabet)
    homes = dict(zip(both.task, both.alphabet, strict=True))
    assert sorted(homes[task] for task in result.tasks) == sorted(set(new.alphabet))
    assert {*result.overlap} == {"t0", "t1"}
    assert all(str(homes[task]).startswith("n") for task in result.tasks)
    with pytest.raises(InvalidInput, match="clusters must be passed, since the guarantee is for"):
        evaluate(promise, new.score, new.task)
    every = evaluate(promise, new.score, new.task, clusters=new.task)
    assert len(every.tasks) == 200
