"""Sites: messages and files, when they agree, what they give together, and what liars can do."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    Site,
    bound_threshold,
    combine_sites,
    count_liars,
    load,
    make_site,
    read_site,
)
from metapac import failure_probability as failure
from metapac.data_checks import CheckWarning
from metapac.evidence import Part
from metapac.federated import Liars, describe_liars, summarise_liars
from tests.helpers.engines import connection
from tests.helpers.refusals import assert_refused
from tests.helpers.sites import GUARANTEE, draw_scores, labelled_sites, send_site
from tests.helpers.tables import calibrate_table, site_table


@pytest.mark.parametrize("split", ["joint", "tight", 0.2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_combined_sites_equal_one_table(tmp_path: Path, split: Any, kind: Any) -> None:
    data = {name: values.astype(kind) for name, values in draw_scores().items()}
    files = [send_site(name, values, tmp_path, split=split) for name, values in data.items()]
    combined = combine_sites(reversed(files))
    names = np.repeat(list(data), [len(values) for values in data.values()])
    together = pd.DataFrame({"site": names, "p": np.concatenate(list(data.values()))})
    expected = calibrate_table(together, task="site", score="p", **GUARANTEE, split=split)
    assert combined.tasks_.tolist() == expected.tasks_.tolist()
    assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
    assert combined.task_thresholds_.tolist() == expected.task_thresholds_.tolist()
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.precision_ == expected.precision_ == kind
    assert combined.promise_ == expected.promise_
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == expected.threshold_


@pytest.mark.parametrize("per_class", [False, True])
def test_columns_on_which_all_sites_agree_are_kept(tmp_path: Path, per_class: bool) -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 40, "q_b": np.linspace(0, 1, 80), "q_a": 0.5})
    options = GUARANTEE | {"label": "y", "columns": "q_*", "per_class": per_class}
    site = site_table(frame, name="ohio", **options, connection=connection("duckdb"))
    sites = [replace(site, name=f"site {i:02d}") for i in range(40)]
    sites[0].save(tmp_path / "a.json")
    assert read_site(tmp_path / "a.json") == sites[0]
    combined = combine_sites([tmp_path / "a.json", *sites[1:]])
    assert combined.columns_ == {"label": "y", "columns": "q_*", "classes": ["b", "a"]}
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").columns_ == combined.columns_
    renamed = {"label": "x", "columns": "q_*", "classes": ["b", "a"]}
    for sent, kept in ((renamed, {"classes": ["b", "a"]}), (None, None)):
        for i in (0, 39):
            others = [*sites[:i], replace(sites[i], columns=sent), *sites[i + 1 :]]
            with pytest.warns(CheckWarning, match="columns: .*label 'y'"):
                other = combine_sites(others)
            assert other.columns_ == kept
            assert other.tasks_.tolist() == combined.tasks_.tolist()


PER_CLASS: list[dict[str, Any]] = [
    {"label": "y"},
    {"label": "y", "score": "true", "classes": ["no", "yes"]},
    {"label": "y", "score": "true", "epsilon": {"yes": 0.3, "no": 0.2}},
]


@pytest.mark.parametrize("how", PER_CLASS, ids=lambda how: " ".join(how))
@pytest.mark.parametrize("minimum", [0, 10])
def test_sites_with_a_guarantee_for_each_class(
    tmp_path: Path, how: dict[str, Any], minimum: int
) -> None:
    options = GUARANTEE | {"per_class": True, "min_examples": minimum, "delta": 0.4} | how
    frame, there = labelled_sites(), connection("duckdb")
    files = []
    for name, part in frame.groupby("site"):
        files.append(tmp_path / f"{name}.json")
        site_table(part, name=name, connection=there, **options).save(files[-1])
    combined = combine_sites(files, on_infeasible="trivial")
    expected = calibrate_table(
        frame, task="site", connection=there, on_infeasible="trivial", **options
    )
    assert sorted(combined.classes_ or ()) == sorted(expected.classes_ or ()) == ["no", "yes"]
    for label in ("no", "yes"):
        assert combined.threshold_of(label) == expected.threshold_of(label)
    if combined.classes_ == expected.classes_:
        assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
        assert (combined._evidence.thresholds == expected._evidence.thresholds).all()
        assert np.array_equal(combined.left_out_, expected.left_out_)
    assert (expected.task_sizes_ == 0).any()
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").thresholds_.tolist() == combined.thresholds_.tolist()


@pytest.mark.parametrize("delta", [None, 0.1])
def test_sites_in_expectation_and_with_min_examples(tmp_path: Path, delta: float | None) -> None:
    data = draw_scores(30)
    options = {"delta": delta, "min_examples": 60}
    files = [send_site(name, values, tmp_path, **options) for name, values in data.items()]
    combined = combine_sites(files)
    names = np.repeat(list(data), [len(values) for values in data.values()])
    expected = MetaPS(**GUARANTEE | options).calibrate(np.concatenate(list(data.values())), names)
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.left_out_ == expected.left_out_ == 9
    assert combined.promise_ == expected.promise_


def test_too_few_sites_are_reported() -> None:
    site = site_table(
        pd.DataFrame({"p": draw_scores()["site 0"]}), name="a", score="p", **GUARANTEE
    )
    with pytest.raises(InfeasibleGuarantee, match="cannot be guaranteed"):
        combine_sites([site])
    assert combine_sites([site], on_infeasible="trivial").threshold_ == -np.inf
    with pytest.raises(ValueError, match="sites is empty"):
        combine_sites([])


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 0.1}, {"alpha": 0.2}, {"delta": 0.2}, {"split": "even"}, {"min_examples": 3},
     {"delta": None}],
    ids=str,
)  # fmt: skip
def test_sites_at_different_levels_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    values, ((name, value),) = draw_scores()["site 0"], changes.items()
    files = [send_site("a", values, tmp_path), send_site("b", values, tmp_path, **changes)]
    with pytest.raises(InvalidInput, match=rf"b.json .*{name}={value!r}, .*a.json .*{name}="):
        combine_sites(files)


def test_sites_must_have_the_same_classes() -> None:
    frame = labelled_sites()
    options = GUARANTEE | {"per_class": True, "label": "y"}
    orders = [["no", "yes"], ["yes", "no"]]
    sites = [site_table(frame, name=x[0], classes=x, **options) for x in orders]
    assert_refused("'no' 'yes' classes=", lambda: combine_sites(sites))
    for words, changes in (
        ("classes all score", {"score": "true"}),
        ("epsilon 'x' 'no', 'yes'", {"epsilon": {"x": 0.1, "no": 0.1}}),
        ("epsilon 'yes' 'no'", {"epsilon": {"no": 0.1}}),
        ("'y' 'no' 'yes'", {"score": "true", "classes": ["no"]}),
    ):
        given: dict[str, Any] = options | changes
        assert_refused(words, site_table, frame, name="a", **given)


AGREED = Guarantee(**GUARANTEE, split="tight")


def make_sites(*names: str, **changes: Any) -> list[Site]:
    return [Site(name, AGREED, (80,), ((0.5,),), np.dtype("float64"), **changes) for name in names]


@pytest.mark.parametrize("odd", [0, 5, 28])
@pytest.mark.parametrize("sent", [["b", "a"], ["a", "b", "c"]])
def test_sites_have_one_order_of_classes(odd: int, sent: list[str]) -> None:
    sites = make_sites(*(f"s{i}" for i in range(29)), columns={"classes": ["a", "b"]})
    sites[odd] = replace(sites[odd], columns={"classes": sent})
    assert_refused(f"'s{odd or 1}' classes 's0'", lambda: combine_sites(sites))


def test_a_site_counts_once(tmp_path: Path) -> None:
    path = send_site("ohio", draw_scores()["site 0"], tmp_path)
    again = path.rename(tmp_path / "first.json")
    files = [again, send_site("ohio", draw_scores()["site 1"], tmp_path)]
    message = r"ohio.json and .*first.json .*'ohio'"
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


@pytest.mark.parametrize(
    "other", ["S1", "s1\u200b", "s\ufeff1", "\uff531", "s\u00ad1", "S1\u2060", "s  1"]
)
def test_one_site_under_two_names_counts_once(other: str) -> None:
    first = "s 1" if " " in other else "s1"
    sites = make_sites(first, other, *(f"site {i}" for i in range(20, 32)))
    assert_refused(f"{first!r} allow=('task-names',)", lambda: combine_sites(sites))
    assert len(combine_sites(sites, allow=["task-names"]).tasks_) == 14
    assert_refused("allow", lambda: combine_sites(sites, allow=["names"]))


def test_a_coarse_site_is_named(tmp_path: Path) -> None:
    sites = make_sites(*(f"s{i}" for i in range(29)))
    assert combine_sites(sites).precision_ == np.float64
    sites[7] = replace(sites[7], precision=np.dtype("float16"))
    with pytest.warns(CheckWarning, match="float16.* 's7'"):
        combined = combine_sites(sites)
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").precision_ == np.float16


@pytest.mark.parametrize(("split", "count"), [("joint", 13), ("tight", 1)])
def test_the_file_holds_a_number_for_each_level_and_no_scores(
    tmp_path: Path, split: str, count: int
) -> None:
    values = draw_scores()["site 0"]
    document = json.loads(send_site("ohio", values, tmp_path, split=split).read_text())
    method = MetaPS(**GUARANTEE, split=split)
    assert document["format"] == "metapac site"
    assert document["site"] == "ohio"
    assert document["examples"] == [80]
    assert document["parameters"] == GUARANTEE | {
        "split": split,
        "per_class": False,
        "min_examples": 0,
    }
    assert document["levels"] == [lv.alpha_within for lv in method._make_guarantee().levels]
    assert len(document["levels"]) == count
    assert document["thresholds"] == [np.atleast_1d(method.task_threshold(values)).tolist()]
    assert document.keys() == {
        "format", "schema", "metapac", "site", "examples", "parameters", "levels", "classes",
        "thresholds", "precision", "range", "columns", "checksum",
    }  # fmt: skip
    assert document["range"] == [values.min(), values.max()]
    assert document["columns"] == {"score": "p"}


NAMES = [
    "",
    " ",
    " a",
    3,
    None,
    True,
    [],
    "a\n",
    "s\x001",
    "s\x1b1",
    "s\u20281",
    "\ufeffs1",
    "s1\u3000",
]


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        *(("name", {"name": value}) for value in NAMES),
        ("model", {"model": ""}),
        ("score", {"score": ""}),
        *(("examples", {"examples": value}) for value in ((-1,), (80, 80), (1,))),
        *(("thresholds", {"thresholds": value}) for value in (((np.nan,),), ((0.5, 0.5),))),
        *(("float32", {"thresholds": ((x,),), "precision": np.dtype("f4")}) for x in (0.1, 1e300)),
        *(("precision", {"precision": value}) for value in ("int64", np.dtype("int8"))),
        ("classes", {"classes": ("a",)}),
        ("classes", {"guarantee": replace(AGREED, per_class=True)}),
        ("thresholds 0.5", {"columns": {"prediction": "guess", "y": "truth"}}),  # at most 0
        *(("range|between", {"range": value}) for value in ((0.9, 0.1), (0.95, 1.0), (0.0, 0.0))),
    ],
)
def test_a_message_that_no_data_give_is_refused(words: str, changes: dict[str, Any]) -> None:
    (good,) = make_sites("ohio")
    with pytest.raises(InvalidInput, match=words.split()[-1]):
        replace(good, **changes)


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("name", {"name": None}),
        ("scores", {"scores": []}),
        ("scores NaN", {"scores": [0.5, np.nan]}),
        ("labels", {"labels": ["a"] * 80}),
        ("allow", {"allow": ["typo"]}),
        ("epsilon", {"method": MetaPS(**GUARANTEE | {"epsilon": 2})}),
        ("labels", {"method": MetaPS(**GUARANTEE, per_class=True)}),
    ],
)
def test_bad_data_of_a_site(words: str, changes: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"method": MetaPS(**GUARANTEE), "scores": draw_scores()["site 0"]}
    assert_refused(words, lambda: make_site(**arguments | {"name": "ohio"} | changes))


def test_arrays_send_what_a_table_sends() -> None:
    frame = labelled_sites(1)
    method = MetaPS(**GUARANTEE, per_class=True)
    matrix = frame[["p_no", "p_yes"]].to_numpy()
    sent = make_site(method, matrix, frame.y, name="a", classes=["no", "yes"])
    table = site_table(frame, name="a", label="y", per_class=True, **GUARANTEE)
    assert replace(sent, columns=None) == replace(table, columns=None)


# What dishonest sites can do: tried out on thresholds, and enumerated.


def agree(
    split: str | float = "joint", delta: float | None = 0.1, per_class: bool = False
) -> Guarantee:
    return Guarantee(epsilon=0.1, alpha=0.3, delta=delta, split=split, per_class=per_class)


def calibrate(guarantee: Guarantee, tasks: int, liars: int, lie: float) -> float:
    """Return the threshold if the last sites lie; honest ones send 1, 2, ... at every level."""
    sent = np.tile(np.arange(1.0, tasks + 1)[:, None], len(guarantee.levels))
    sent[tasks - liars :] = lie
    used, sizes = np.full(tasks, True), np.full(tasks, 1000)
    return Part(guarantee, None, used, sizes, sent, -np.inf, np.inf).second_step().threshold


@pytest.mark.parametrize("split", ["joint", "tight", "even"])
@pytest.mark.parametrize("tasks", [20, 40, 90])
def test_it_takes_as_many_liars_as_counted_and_no_fewer(split: str, tasks: int) -> None:
    guarantee = agree(split)
    needed = count_liars(guarantee, tasks)
    assert calibrate(guarantee, tasks, needed.to_keep_all, -math.inf) == -math.inf
    assert calibrate(guarantee, tasks, needed.to_keep_all - 1, -math.inf) > -math.inf
    assert calibrate(guarantee, tasks, needed.to_empty, math.inf) == math.inf
    assert calibrate(guarantee, tasks, needed.to_empty - 1, math.inf) < math.inf


def test_fewer_liars_move_the_threshold_by_as_many_ranks() -> None:
    guarantee = agree("tight")
    rank = guarantee.allowed_low_thresholds(90)[0]
    for liars in range(rank + 1):
        assert calibrate(guarantee, 90, liars, -math.inf) == rank + 1 - liars
        assert calibrate(guarantee, 90, liars, math.inf) == rank + 1


def test_sites_that_are_too_small_help_the_liars() -> None:
    guarantee = agree()
    whole = count_liars(guarantee, 90)

    def combine(guarantee: Guarantee, *small: int) -> dict[str, int]:
        """Return what it takes if so many sites, of each class, send -inf anyway."""
        levels = len(guarantee.levels)
        rows = [[(-np.inf if i < few else 1.0,) * levels for few in small] for i in range(90)]
        classes = ("a", "b") if guarantee.per_class else None
        sent = [
            Site(f"s{i}", guarantee, (99,) * len(small), (*row,), np.dtype("f8"), classes)
            for i, row in enumerate(rows)
        ]
        return summarise_liars(combine_sites(sent, on_infeasible="trivial"))

    assert combine(guarantee, 0) == {"sites": 90, **whole._asdict()}
    assert combine(guarantee, 2)["to_keep_all"] == whole.to_keep_all - 2
    # Of several classes, the one that takes the fewest counts.
    each = combine(agree(per_class=True), 0, 0)["to_keep_all"]
    assert combine(agree(per_class=True), 0, 2)["to_keep_all"] == each - 2


def test_too_few_sites_need_no_liar() -> None:
    assert count_liars(agree(), 2).to_keep_all == 0


def test_in_expectation_one_liar_in_ten_is_enough() -> None:
    assert count_liars(Guarantee(epsilon=0.1, alpha=0.1, delta=None), 10) == Liars(1, 10)


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_the_failure_probability_is_that_of_the_worst_case(liars: int, at_random: bool) -> None:
    # Each site shows itself as broken with probability alpha_across: enumerate all sites, and all
    # choices of those that send inf. By default the worst choice counts, otherwise the first ones.
    tasks = 6
    guarantee = Guarantee(epsilon=0.1, alpha=0.5, delta=0.3, split="tight")
    (rank,) = guarantee.allowed_low_thresholds(tasks)
    share = guarantee.alpha_across
    choices = [*itertools.combinations(range(tasks), tasks - liars)][: 1 if at_random else None]
    expected = sum(
        math.prod(share if low else 1 - share for low in outcome)
        for outcome in itertools.product([False, True], repeat=tasks)
        if min(sum(outcome[i] for i in honest) for honest in choices) <= rank
    )
    found = failure(guarantee, tasks, liars, at_random=at_random)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("at_random", [False, True])
def test_several_levels_are_counted_together(at_random: bool) -> None:
    guarantee = agree(delta=0.2)
    tasks, liars, draws = 30, 3, 200_000
    ranks = np.array(guarantee.allowed_low_thresholds(tasks))
    rng = np.random.default_rng(0)
    breaks = rng.random((draws, tasks)) < guarantee.alpha
    u = np.where(breaks, rng.random((draws, tasks)), 0.0)
    # The sites that lie are those with the lowest thresholds, or any.
    honest = (u if at_random else np.sort(u, axis=1))[:, : tasks - liars]
    within = [level.alpha_within for level in guarantee.levels]
    low = np.stack([(honest > t).sum(axis=1) for t in within], axis=1)
    seen = np.mean((low <= ranks).any(axis=1))
    p = failure(guarantee, tasks, liars, at_random=at_random)
    # False-alarm rate 1e-6: 4.9 standard deviations. Control: the other values are refused.
    tolerance = 4.9 * math.sqrt(p * (1 - p) / draws)
    assert abs(seen - p) <= tolerance
    assert abs(seen - failure(guarantee, tasks)) > tolerance
    assert abs(seen - failure(guarantee, tasks, liars, at_random=not at_random)) > tolerance


@pytest.mark.parametrize(
    ("tasks", "liars", "random", "worst"),
    [
        (29, 1, 0.054, 0.204),
        (100, 1, 0.052, 0.125),
        (100, 5, 0.065, 0.736),
        (100, 10, 0.085, 0.994),
        (500, 1, 0.050, 0.074),
        (500, 5, 0.056, 0.262),
        (500, 10, 0.063, 0.637),
    ],
)
def test_sites_that_lie_because_of_their_data_are_worse(
    tasks: int, liars: int, random: float, worst: float
) -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    assert failure(guarantee, tasks, liars) == pytest.approx(worst, abs=5e-4)
    assert failure(guarantee, tasks, liars, at_random=True) == pytest.approx(random, abs=5e-4)


def test_a_guarantee_that_keeps_every_label_cannot_fail() -> None:
    assert failure(agree(), 2, 1) == 0.0


def test_honest_sites_keep_the_guarantee_and_liars_erode_it() -> None:
    guarantee = agree()
    values = [failure(guarantee, 60, liars) for liars in (0, 5, 20, 60)]
    assert values[0] <= 0.1
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_bad_numbers_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="liars must be at most tasks, 5, got 6."):
        failure(agree(), 5, 6)
    with pytest.raises(InvalidInput, match="has no failure probability"):
        failure(agree(delta=None), 50)


def test_sentence() -> None:
    agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    messages = [
        Site(f"s{i}", agreed, (100,), ((-i / 40,),), np.dtype("f8"), columns={"prediction": "p"})
        for i in range(40)
    ]
    most, least = count_liars(agreed, 40)
    numbers = f"Of 40 sites, {most} dishonest ones can {{}}; {least} can {{}}."
    wide = numbers.format("make every interval infinite", "shrink every interval to its prediction")
    assert describe_liars(combine_sites(messages)) == wide
    plain = [replace(site, columns=None) for site in messages]
    expected = numbers.format("force every label into every set", "empty every set")
    assert describe_liars(combine_sites(plain)) == expected
    trivial = combine_sites(plain[:2], on_infeasible="trivial")
    assert describe_liars(trivial) == ""


def test_only_sites_that_count_are_counted() -> None:
    scores, sizes = np.random.default_rng(0).random(40 * 60 + 5 * 10), [60] * 40 + [10] * 5
    sites = np.repeat(np.arange(45), sizes)
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
    predictor = MetaPS(**levels, min_examples=30).calibrate(scores, sites)
    expected = count_liars(predictor.guarantee_, 40)
    assert summarise_liars(predictor) == {"sites": 40, **expected._asdict()}
    assert summarise_liars(MetaPS(**levels).calibrate(scores, sites))["sites"] == 45


def sites(split: str | float, tasks: int = 30, seed: int = 0) -> MetaPS:
    scores = np.random.default_rng(seed).random(tasks * 40)
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split=split)
    return method.calibrate(scores, np.repeat(np.arange(tasks), 40), allow=("levels",))


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_no_lie_takes_the_threshold_out_of_its_range(split: str, liars: int) -> None:
    predictor = sites(split, tasks=12)
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    low, high = bound_threshold(predictor, liars)
    assert low <= predictor.threshold_ <= high
    truths = [-math.inf, 0.0, 0.1, 0.2, 0.5, math.inf]
    for chosen in itertools.combinations(range(12), liars):
        for values in itertools.product(truths, repeat=liars):
            thresholds = part.thresholds.copy()
            thresholds[list(chosen)] = np.array(values)[:, None]
            assert low <= part._replace(thresholds=thresholds).second_step().threshold <= high


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("liars", [1, 2])
def test_hidden_and_invented_examples_do_not_take_it_out_either(split: str, liars: int) -> None:
    scores, sizes = np.random.default_rng(0).random(10 * 40 + 2 * 20), [40] * 10 + [20] * 2
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split=split, min_examples=30)
    predictor = method.calibrate(scores, np.repeat(np.arange(12), sizes), allow=("levels",))
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    low, high = bound_threshold(predictor, liars)
    reached = []
    for chosen in itertools.combinations(range(12), liars):
        for values in itertools.product([None, -math.inf, 0.1, 0.5, math.inf], repeat=liars):
            used, thresholds = part.used.copy(), part.thresholds.copy()
            for site, value in zip(chosen, values, strict=True):
                used[site] = value is not None
                thresholds[site] = 0.0 if value is None else value
            honest = part._replace(used=used, thresholds=thresholds).second_step().threshold
            assert low <= honest <= high
            reached.append(honest)
    assert (min(reached), max(reached)) == (low, high)


def test_the_range_is_reached() -> None:
    predictor = sites("tight")
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    order = np.argsort(part.thresholds[:, 0])
    for liars in (0, 1, 2, 30):
        expected = bound_threshold(predictor, liars)
        ends = []
        for chosen, truth in ((order[30 - liars :], -math.inf), (order[:liars], math.inf)):
            thresholds = part.thresholds.copy()
            thresholds[chosen] = truth
            ends.append(part._replace(thresholds=thresholds).second_step().threshold)
        assert tuple(ends) == expected
    assert bound_threshold(predictor, 30) == (-math.inf, math.inf)


def test_a_range_for_each_class_and_for_sites_that_support_nothing() -> None:
    labels = np.tile(["a", "b"], 600)
    scores = np.random.default_rng(0).random(1200)
    predictor = MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, per_class=True)
    predictor.calibrate(scores, np.repeat(np.arange(30), 40), labels, allow=("levels",))
    for label in ("a", "b"):
        low, high = bound_threshold(predictor, 1, label=label)
        assert low < predictor.threshold_of(label) < high
    with pytest.raises(InvalidInput, match="label must be one of 'a', 'b', got None."):
        bound_threshold(predictor, 1)
    with pytest.raises(InvalidInput, match="liars must be at most the number of sites, 30, got 31"):
        bound_threshold(sites("joint"), 31)
    trivial = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate(scores, np.repeat(np.arange(2), 600))
    assert bound_threshold(trivial, 1) == (-math.inf, -math.inf)
