"""One guarantee for all classes: on the same tasks, with a common threshold above their offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import (
    Columns,
    Context,
    Exploration,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    Monitor,
    combine_sites,
    evaluate,
    explore,
    load,
    make_site,
    open_table,
)
from metapac.guarantee import JOINT_LEVELS
from metapac.verdict import count_trials
from tests.helpers.enumeration import outcomes

LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
OFFSETS = {"no": 0.25, "yes": 0.375}
together = MetaPS(**LEVELS, per_class="together", offsets=OFFSETS)
TASKS, SIZE = 40, 60
names = np.repeat([f"site {i:02}" for i in range(TASKS)], SIZE)


def draw(seed: int = 0, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return scores of both classes, and labels of which a quarter are "yes"."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(len(names)) < 0.25, "yes", "no")
    logits = rng.normal(size=(len(names), 2)) + 2 * (labels[:, None] == ["no", "yes"])
    logits += 0.4 * rng.normal(size=TASKS).repeat(SIZE)[:, None] * [0, 1]
    scores = np.exp(logits)
    return (scores / scores.sum(axis=1, keepdims=True)).astype(dtype), labels


def calibrate(method: MetaPS, scores: Any, labels: Any, **options: Any) -> MetaPS:
    return method.calibrate(scores, names, labels, classes=["no", "yes"], **options)


@pytest.mark.filterwarnings("ignore:No calibration", "ignore:The threshold", "ignore:Every")
def test_failures_by_enumeration_and_separate_thresholds_need_a_share_of_alpha_each() -> None:
    # Every task has three examples of each class. Those of one class score 0 with probability
    # epsilon in a quarter of the tasks, those of the other class in another quarter: above 0, half
    # of the tasks are broken. All numbers of zeros are enumerated, as (class, number).
    tasks, size, epsilon, limit = 6, 3, 0.4, 0.3
    levels: dict[str, Any] = {"epsilon": epsilon, "alpha": 0.49, "delta": limit}
    zeros = [(0, 0), *((c, k) for c in (0, 1) for k in range(1, size + 1))]
    chances = np.array([stats.binom.pmf(k, size, epsilon) / 4 for _c, k in zeros])
    chances[0] = 1 - chances[1:].sum()
    site, label = np.repeat(np.arange(tasks), 2 * size), np.tile(np.repeat([0, 1], size), tasks)
    place = np.tile(np.arange(size), 2 * tasks)
    joint = MetaPS(
        **levels, per_class="together", offsets={0: 0.0, 1: 0.0}, on_infeasible="trivial"
    )
    alone = MetaPS(**levels, on_infeasible="trivial")
    failed, failed_alone, cache = 0.0, 0.0, {}
    for found, chance in outcomes(chances, tasks):
        counts = np.zeros((tasks, 2), dtype=int)
        for task, kind in enumerate(found):
            counts[task, zeros[kind][0]] = zeros[kind][1]
        scores = 1.0 - (place < counts[site, label])
        joint.calibrate(scores, site, label, allow=["duplicates"])
        failed += chance * (joint.threshold_ > 0)
        highest = -np.inf
        for c in (0, 1):
            key = tuple(sorted(counts[:, c].tolist()))
            if key not in cache:
                own = label == c
                alone.calibrate(scores[own], site[own], allow=["duplicates"])
                cache[key] = alone.threshold_
            highest = max(highest, cache[key])
        failed_alone += chance * (highest > 0)
    assert 0 < failed <= limit
    assert failed_alone > limit  # control: each class at the whole of alpha and delta


@pytest.mark.filterwarnings("ignore::UserWarning")
@given(st.data())
def test_sets_are_those_of_the_subtraction(data: st.DataObject) -> None:
    dtype: Any = data.draw(st.sampled_from([np.float32, np.float64, np.float16]))
    width = np.dtype(dtype).itemsize * 8
    number = st.floats(-100, 100, width=width)
    pool = np.array(data.draw(st.lists(number, min_size=1, max_size=20)), dtype)
    offsets = data.draw(st.tuples(*[st.floats(-1e3, 1e3)] * 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scores, labels = rng.choice(pool, (200, 2)), np.arange(200) % 2
    method = MetaPS(
        epsilon=0.4, alpha=0.5, delta=None, per_class="together", offsets=dict(enumerate(offsets))
    )
    allow = ["duplicates", "direction", "scale", "trivial-sets"]
    method.calibrate(scores, np.arange(200) // 2 % 10, labels, allow=allow[:1])
    nearby = np.concatenate([scores, np.nextafter(scores, dtype(-np.inf))])
    expected = nearby.astype(np.float64) - np.array(offsets) >= method.threshold_
    assert np.array_equal(method.predict_set(nearby), expected)


def test_every_road_gives_the_same_sets(tmp_path: Path) -> None:
    scores, labels = draw()
    arrays = calibrate(together, scores, labels)
    frame = pd.DataFrame({"site": names, "y": labels, "p_no": scores[:, 0], "p_yes": scores[:, 1]})
    columns = Columns(task="site", label="y")
    table = MetaPS(**together.get_params()).calibrate(open_table(frame, columns))
    sites = [
        make_site(
            together, scores[names == name], labels[names == name], name=name, classes=[*OFFSETS]
        )
        for name in np.unique(names)
    ]
    arrays.save(tmp_path / "promise.json")
    for other in (table, combine_sites(sites), load(tmp_path / "promise.json")):
        assert np.array_equal(other.thresholds_, arrays.thresholds_)
        assert other.threshold_ == arrays.threshold_
        assert other.promise_ == arrays.promise_
    shown = table.predict(open_table(frame.head(50), columns), booleans=True).to_pandas()
    assert np.array_equal(shown[["in_no", "in_yes"]], arrays.predict_set(scores[:50]))
    assert "every class at once" in arrays.promise_
    assert len(arrays.explain().split("\n\n")) == 6
    assert [row["class"] for row in arrays.to_dict()["thresholds"]] == ["no", "yes"]


def test_the_threshold_of_a_task_is_that_of_its_worst_class() -> None:
    scores, labels = draw()
    method = calibrate(
        MetaPS(**LEVELS, split="tight", per_class="together", offsets=OFFSETS), scores, labels
    )
    true, worst = (
        scores[np.arange(len(labels)), (labels == "yes").astype(int)],
        np.full(TASKS, np.inf),
    )
    for label, offset in OFFSETS.items():
        own = labels == label
        alone = MetaPS(**LEVELS, split="tight").calibrate(true[own], names[own])
        worst = np.minimum(worst, alone.task_thresholds_ - offset)
    assert np.array_equal(method.task_thresholds_, worst)
    rank = method.guarantee_.allowed_low_thresholds(TASKS)[0]
    assert method.threshold_ == np.sort(worst)[rank]


def test_offsets_come_from_pilot_tasks_and_not_from_calibration_tasks(tmp_path: Path) -> None:
    scores, labels = draw()
    pilot, rest = names < "site 10", names >= "site 10"
    found = explore(
        scores[pilot], names[pilot], labels[pilot], classes=["no", "yes"], epsilon=[0.2]
    )
    true = scores[np.arange(len(labels)), (labels == "yes").astype(int)]
    for label, offset in found.offsets(0.2).items():
        own = true[pilot & (labels == label)]
        assert np.mean(own < offset) <= 0.2 <= np.mean(own <= offset)
    found.save(tmp_path / "pilot.json")
    method = MetaPS(**LEVELS, per_class="together", offsets=found)
    calibrated = method.calibrate(scores[rest], names[rest], labels[rest], classes=["no", "yes"])
    assert calibrated.guarantee_.offsets == found.offsets(0.2)
    calibrated.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").offsets == found.offsets(0.2)
    assert len([*(calibrated.context_.pilot or ())]) == 10
    with pytest.raises(InvalidInput, match="pilot"):
        calibrate(MetaPS(**LEVELS, per_class="together", offsets=found), scores, labels)


@pytest.mark.filterwarnings("ignore:Every label")
def test_a_class_that_a_task_lacks_is_declared_and_never_read_off_the_sample() -> None:
    scores, labels = draw()
    labels[np.isin(names, [f"site {i:02}" for i in range(12)])] = "no"
    with pytest.raises(InfeasibleGuarantee):
        calibrate(together, scores, labels)
    lacking = {"yes": [f"site {i:02}" for i in range(12)]}
    declared = calibrate(together, scores, labels, lacking=lacking)
    kept = names >= "site 12"
    other = together.calibrate(scores[kept], names[kept], labels[kept], classes=["no", "yes"])
    assert declared.threshold_ >= other.threshold_ > -np.inf
    for wrong in ({"yes": ["site 20"]}, {"yes": ["site 99"]}, {"maybe": ["site 00"]}):
        with pytest.raises(InvalidInput) as caught:
            calibrate(together, scores, labels, lacking=wrong)
        assert caught.value.parameters == ("lacking",)


def test_files_keep_declared_classes(tmp_path: Path) -> None:
    scores, labels = draw()
    labels[names == "site 00"] = "no"
    method = calibrate(together, scores, labels, lacking={"yes": ["site 00"]})
    method.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == method.threshold_


def test_a_verdict_is_on_all_classes_at_once() -> None:
    scores, labels = draw()
    promise = calibrate(MetaPS(**LEVELS, per_class="together", offsets=OFFSETS), scores, labels)
    new, y = draw(1)
    new = 0.4 * new + 0.6 * (y[:, None] == ["no", "yes"])  # a better model
    fresh = np.char.add("new ", names)
    good = evaluate(promise, new, fresh, y, allow=["labels"])
    assert good.verdict is not None
    assert good.verdict.status == "holds"
    assert "on every class" in good.verdict.sentence()
    bad = evaluate(promise, new[:, ::-1], fresh, y, allow=["direction", "labels"])
    assert bad.verdict is not None
    assert bad.verdict.status == "violated"
    assert "on some class" in bad.verdict.sentence()
    missed = ~promise.predict_set(new)[np.arange(len(y)), (y == "yes").astype(int)]
    rates = pd.DataFrame({"t": fresh, "y": y, "m": missed}).groupby(["t", "y"])["m"].mean()
    assert good.within == (rates.unstack().max(axis=1) <= 0.2).mean()
    assert good.to_dict()["by_class"][0]["class"] == "no"
    monitor = Monitor(promise)
    monitor.add_evaluation(good)
    each = [steps[-1] for steps in (monitor.by_class or {}).values()]
    assert monitor.interval[1] == min(1.0, sum(step.upper for step in each))


def test_a_task_is_shown_to_be_above_at_a_share_of_the_level() -> None:
    # Two classes, each at exactly epsilon: the chance that a task counts as above is at most the
    # level, and would not be with the whole level for each class.
    size, epsilon = 12, 0.3
    counts = np.array([(a, b) for a in range(size + 1) for b in range(size + 1)])
    chance = stats.binom.pmf(counts, size, epsilon).prod(axis=1)
    above, whole = [], []
    for row in counts:
        (found,) = count_trials(np.full((1, 2), size), row[None], epsilon, np.zeros(1, int), 1, 0.5)
        above.append(1 - np.array(found["if_true"].counts))
        alone = [
            count_trials(np.full((1, 1), size), row[None, [i]], epsilon, np.zeros(1, int), 1, 0.5)
            for i in (0, 1)
        ]
        whole.append(1 - np.min([one[0]["if_true"].counts for one in alone], axis=0))
    assert (chance @ np.array(above) <= np.array(JOINT_LEVELS) * (1 + 1e-9)).all()
    assert (chance @ np.array(whole) > np.array(JOINT_LEVELS)).any()


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"per_class": "both"}, "per_class"),
        ({"offsets": None}, "offsets"),
        ({"offsets": {}}, "offsets"),
        ({"offsets": 0.5}, "offsets"),
        ({"offsets": {"no": 0.5}}, "offsets"),
        ({"offsets": {"no": 0.5, "yes": np.nan}}, "offsets"),
        ({"offsets": {"no": 0.5, "yes": 0.1, "maybe": 0.0}}, "offsets"),
        ({"per_class": True}, "offsets"),
        ({"epsilon": {"no": 0.1, "yes": 0.2}}, "epsilon"),
    ],
)
def test_bad_input_names_the_parameter(wrong: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        calibrate(MetaPS(**{**together.get_params(), **wrong}), *draw())
    assert caught.value.parameters == (parameter,)


def test_other_bad_input() -> None:
    scores, labels = draw()
    with pytest.raises(InvalidInput, match="lacking"):
        calibrate(MetaPS(**LEVELS, per_class=True), scores, labels, lacking={"yes": ["site 00"]})
    with pytest.raises(InvalidInput, match="offsets"):
        Exploration(("ohio",), 80, 0.05, {"no": 1.0}, (), {}).offsets(0.1)
    about = Context(pilot=["site 00"])
    with pytest.raises(InvalidInput, match="pilot"):
        calibrate(together, scores, labels, context=about)


def test_tasks_declared_to_lack_a_class_are_left_out_by_min_examples(tmp_path: Path) -> None:
    # They cannot break the guarantee, so they must not dilute the tasks that it is for.
    scores, labels = draw()
    lacking = [f"site {i:02}" for i in range(20)]
    labels[np.isin(names, lacking)] = "no"
    method = MetaPS(**LEVELS, per_class="together", offsets=OFFSETS, min_examples=2)
    calibrate(method, scores, labels, lacking={"yes": lacking})
    assert method.left_out_ == 20
    kept = np.isin(names, lacking, invert=True)
    other = MetaPS(**method.get_params())
    other.calibrate(scores[kept], names[kept], labels[kept], classes=["no", "yes"])
    assert method.threshold_ == other.threshold_


def test_what_is_declared_is_said() -> None:
    scores, labels = draw()
    labels[names == "site 00"] = "no"
    method = calibrate(together, scores, labels, lacking={"yes": ["site 00"]})
    for text in (method.promise_, method.explain()):
        assert "1 task lacks class 'yes'" in text
    assert [row["tasks"] for row in method.to_dict()["thresholds"]] == [40, 39]


def test_tasks_that_are_too_small_in_a_class_are_not_evaluated() -> None:
    scores, labels = draw()
    promise = calibrate(MetaPS(**LEVELS, per_class="together", offsets=OFFSETS), scores, labels)
    new, y = draw(1)
    fresh = np.char.add("new ", names)
    y[names < "site 30"] = "no"  # only ten tasks have both classes
    wrong = np.where((names < "site 30")[:, None], new[:, ::-1], new)
    found = evaluate(promise, wrong, fresh, y, min_examples=2, allow=["direction"])
    assert (len(found.tasks), found.left_out) == (10, 30)
    assert 0 <= found.within <= 1
    assert {len(part.tasks) for part in (found.by_class or {}).values()} == {10}


def test_pilot_tasks_stay_apart_in_another_calibration() -> None:
    scores, labels = draw()
    pilot, rest = names < "site 10", names >= "site 10"
    found = explore(
        scores[pilot], names[pilot], labels[pilot], classes=["no", "yes"], epsilon=[0.2]
    )
    method = MetaPS(**LEVELS, per_class="together", offsets=found)
    method.calibrate(scores[rest], names[rest], labels[rest], classes=["no", "yes"])
    with pytest.raises(InvalidInput, match="pilot"):
        calibrate(method, scores, labels)


def test_a_class_that_is_always_kept_is_remarked_on_and_rounded_scores_are_not() -> None:
    scores, labels = draw()
    low = MetaPS(**LEVELS, per_class="together", offsets={"no": -1.0, "yes": 0.375})
    with pytest.warns(UserWarning, match="class 'no' is below its threshold"):
        calibrate(low, scores, labels)
    coarse = scores.round(1)
    sites = [
        make_site(together, coarse[names == n], labels[names == n], name=n, classes=[*OFFSETS])
        for n in np.unique(names)
    ]
    assert not any("0.0" in remark for remark in combine_sites(sites).remarks_)


def test_too_few_examples_are_those_of_a_class() -> None:
    scores, labels = draw()
    labels[np.isin(names, [f"site {i:02}" for i in range(12)])] = "no"
    with pytest.raises(InfeasibleGuarantee, match="of each class.*'site 00'.*'yes'.*lacking"):
        calibrate(together, scores, labels)


@pytest.mark.parametrize("lacking", ["yes", ["yes"], {"yes": "site 00"}, {"yes": None}])
def test_lacking_maps_classes_to_lists(lacking: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        calibrate(together, *draw(), lacking=lacking)
    assert caught.value.parameters == ("lacking",)
