"""Sites: messages and files, when they agree, what they give together, and what liars can do."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metapac as mp
from metapac import failure_probability as failure
from metapac.data_checks import CheckWarning
from metapac.evidence import Part
from metapac.federated import Liars, summarise_liars
from metapac.fewshot.synthetic import NormalFamily
from tests.helpers import oracles
from tests.helpers.engines import connection
from tests.helpers.refusals import assert_refused
from tests.helpers.tables import calibrate_table, site_table

GUARANTEE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def draw_scores(count: int = 12) -> dict[str, Any]:
    """Return the scores of sites; each has one example less than the one before."""
    family = NormalFamily()
    drawn = family.draw_scores(family.draw_tasks(count, rng=0), 80, rng=1)
    return {f"site {i}": row[: 80 - i] for i, row in enumerate(drawn)}


def send_site(name: str, values: Any, folder: Path, **changes: Any) -> Path:
    """Write the file of a site and return its path."""
    frame = pd.DataFrame({"p": values})
    there = connection("duckdb")
    site = site_table(frame, name=name, score="p", connection=there, **GUARANTEE | changes)
    site.save(folder / f"{name}.json")
    return folder / f"{name}.json"


def labelled_sites(count: int = 30) -> pd.DataFrame:
    """Sites with a common class, and a rare one that some of them lack."""
    rng = np.random.default_rng(0)
    rows = count * 90
    site = np.repeat([f"site {i:02d}" for i in range(count)], 90)
    rare = rng.random(rows) < np.repeat(rng.choice([0.0, 0.2, 0.3], count), 90)
    yes = np.where(rare, 0.4, 0.1) + 0.3 * rng.random(rows)
    label = np.where(rare, "yes", "no")
    true = np.where(rare, yes, 1 - yes)
    frame = {"site": site, "y": label, "p_no": 1 - yes, "p_yes": yes, "true": true}
    return pd.DataFrame(frame)


@pytest.mark.parametrize(
    "options",
    [{"split": "joint"}, {"split": "tight"}, {"split": 0.2}, {"delta": None, "min_examples": 75}],
    ids=str,
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_combined_sites_equal_one_table(tmp_path: Path, options: Any, kind: Any) -> None:
    data = {name: values.astype(kind) for name, values in draw_scores().items()}
    files = [send_site(name, values, tmp_path, **options) for name, values in data.items()]
    combined = mp.combine_sites(reversed(files))
    names = np.repeat(list(data), [len(values) for values in data.values()])
    together = pd.DataFrame({"site": names, "p": np.concatenate(list(data.values()))})
    expected = calibrate_table(together, task="site", score="p", **GUARANTEE | options)
    assert combined.tasks_.tolist() == expected.tasks_.tolist()
    assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
    assert combined.task_thresholds_.tolist() == expected.task_thresholds_.tolist()
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.precision_ == expected.precision_ == kind
    assert combined.left_out_ == expected.left_out_ == 6 * ("min_examples" in options)
    assert combined.promise_ == expected.promise_


@pytest.mark.parametrize("per_class", [False, True])
def test_columns_on_which_all_sites_agree_are_kept(tmp_path: Path, per_class: bool) -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 40, "q_b": np.linspace(0, 1, 80), "q_a": 0.5})
    options = GUARANTEE | {"label": "y", "columns": "q_*", "per_class": per_class}
    site = site_table(frame, name="ohio", **options, connection=connection("duckdb"))
    sites = [replace(site, name=f"site {i:02d}") for i in range(40)]
    sites[0].save(tmp_path / "a.json")
    assert mp.read_site(tmp_path / "a.json") == sites[0]
    combined = mp.combine_sites([tmp_path / "a.json", *sites[1:]])
    assert combined.columns_ == {"label": "y", "columns": "q_*", "classes": ["b", "a"]}
    combined.save(tmp_path / "promise.json")
    assert mp.load(tmp_path / "promise.json").columns_ == combined.columns_
    renamed = {"label": "x", "columns": "q_*", "classes": ["b", "a"]}
    for sent, kept in ((renamed, {"classes": ["b", "a"]}), (None, None)):
        for i in (0, 39):
            others = [*sites[:i], replace(sites[i], columns=sent), *sites[i + 1 :]]
            with pytest.warns(CheckWarning, match="columns: .*label 'y'"):
                assert mp.combine_sites(others).columns_ == kept


PER_CLASS: list[dict[str, Any]] = [
    {"label": "y"},
    {"label": "y", "score": "true", "classes": ["no", "yes"]},
    {"label": "y", "score": "true", "epsilon": {"yes": 0.3, "no": 0.2}},
]


@pytest.mark.parametrize("how", PER_CLASS, ids=lambda how: " ".join(how))
@pytest.mark.parametrize("minimum", [0, 10])
def test_sites_with_a_guarantee_for_each_class(how: dict[str, Any], minimum: int) -> None:
    frame = labelled_sites()
    options: Any = GUARANTEE | {"per_class": True, "min_examples": minimum, "delta": 0.4} | how
    options["connection"] = connection("duckdb")
    sites = [site_table(part, name=name, **options) for name, part in frame.groupby("site")]
    combined = mp.combine_sites(sites, on_infeasible="trivial")
    expected = calibrate_table(frame, task="site", on_infeasible="trivial", **options)
    assert sorted(combined.classes_ or ()) == sorted(expected.classes_ or ()) == ["no", "yes"]
    for label in ("no", "yes"):
        assert combined.threshold_of(label) == expected.threshold_of(label)
    if combined.classes_ == expected.classes_:
        assert combined.task_sizes_.tolist() == expected.task_sizes_.tolist()
        assert (combined._evidence.thresholds == expected._evidence.thresholds).all()
        assert np.array_equal(combined.left_out_, expected.left_out_)
    assert (expected.task_sizes_ == 0).any()


def test_sites_at_different_levels_are_refused(tmp_path: Path) -> None:
    first = send_site("a", np.linspace(0, 1, 80), tmp_path)
    changes: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "split": "even", "min_examples": 3}
    for name, value in (*changes.items(), ("delta", 0.2), ("delta", None)):
        other = send_site("b", np.linspace(0, 1, 80), tmp_path, **{name: value})
        with pytest.raises(
            mp.InvalidInput, match=rf"b.json .*{name}={value!r}, .*a.json .*{name}="
        ):
            mp.combine_sites([first, other])


def test_sites_must_have_the_same_classes() -> None:
    frame = labelled_sites()
    options = GUARANTEE | {"per_class": True, "label": "y"}
    orders = [["no", "yes"], ["yes", "no"]]
    sites = [site_table(frame, name=x[0], classes=x, **options) for x in orders]
    assert_refused("'no' 'yes' classes=", lambda: mp.combine_sites(sites))
    assert_refused("sites empty", lambda: mp.combine_sites([]))
    for words, changes in (
        ("classes all score", {"score": "true"}),
        ("epsilon 'x' 'no', 'yes'", {"epsilon": {"x": 0.1, "no": 0.1}}),
        ("epsilon 'yes' 'no'", {"epsilon": {"no": 0.1}}),
        ("'y' 'no' 'yes'", {"score": "true", "classes": ["no"]}),
    ):
        given: dict[str, Any] = options | changes
        assert_refused(words, site_table, frame, name="a", **given)


AGREED = mp.Guarantee(**GUARANTEE, split="tight")


def make_sites(*names: str, **changes: Any) -> list[mp.Site]:
    return [mp.Site(x, AGREED, (80,), ((0.5,),), np.dtype("float64"), **changes) for x in names]


@pytest.mark.parametrize("odd", [0, 5, 28])
@pytest.mark.parametrize("sent", [["b", "a"], ["a", "b", "c"]])
def test_sites_have_one_order_of_classes(odd: int, sent: list[str]) -> None:
    sites = make_sites(*(f"s{i}" for i in range(29)), columns={"classes": ["a", "b"]})
    sites[odd] = replace(sites[odd], columns={"classes": sent})
    assert_refused(f"'s{odd or 1}' classes 's0'", lambda: mp.combine_sites(sites))


def test_one_site_under_two_names_counts_once() -> None:
    for other in ("S1", "s1\u200b", "s\ufeff1", "\uff531", "s\u00ad1", "s  1"):
        first = "s 1" if " " in other else "s1"
        sites = make_sites(first, other, *(f"site {i}" for i in range(20, 32)))
        assert_refused(f"{first!r} allow=('task-names',)", lambda: mp.combine_sites(sites))
        assert len(mp.combine_sites(sites, allow=["task-names"]).tasks_) == 14
    assert_refused("allow", lambda: mp.combine_sites(sites, allow=["names"]))


def test_a_coarse_site_is_named(tmp_path: Path) -> None:
    sites = make_sites(*(f"s{i}" for i in range(29)))
    assert mp.combine_sites(sites).precision_ == np.float64
    sites[7] = replace(sites[7], precision=np.dtype("float16"))
    with pytest.warns(CheckWarning, match="float16.* 's7'"):
        combined = mp.combine_sites(sites)
    combined.save(tmp_path / "promise.json")
    assert mp.load(tmp_path / "promise.json").precision_ == np.float16


NAMES = ["", " a", 3, None, True, [], "a\n", "s\x001", "s\x1b1", "s\u20281", "\ufeffs1", "s1\u3000"]


PAIR = {"lower": "q5", "upper": "q95", "y": "truth"}
IMPOSSIBLE_MESSAGES: list[Any] = [
    *(("name", {"name": value}) for value in NAMES),
    ("model", {"model": ""}),
    ("score", {"score": ""}),
    *(("examples", {"examples": value}) for value in ((-1,), (80, 80), (1,))),
    *(("thresholds", {"thresholds": value}) for value in (((np.nan,),), ((0.5, 0.5),))),
    *(("float32", {"thresholds": ((x,),), "precision": np.dtype("f4")}) for x in (0.1, 1e300)),
    *(("precision", {"precision": value}) for value in ("int64", np.dtype("int8"))),
    ("classes", {"classes": ("a",)}),
    ("classes", {"guarantee": replace(AGREED, per_class=True)}),
    ("thresholds inf", {"columns": PAIR, "thresholds": ((np.inf,),)}),
    ("thresholds 0.5", {"columns": {"prediction": "guess", "y": "truth"}}),  # at most 0
    *(("range|between", {"range": value}) for value in ((0.9, 0.1), (0.95, 1.0), (0.0, 0.0))),
]


def test_a_message_that_no_data_give_is_refused() -> None:
    for words, changes in IMPOSSIBLE_MESSAGES:
        (good,) = make_sites("ohio")
        with pytest.raises(mp.InvalidInput, match=words.split()[-1]):
            replace(good, **changes)


def test_bad_data_of_a_site() -> None:
    for words, changes in (
        ("name", {"name": None}),
        ("scores", {"scores": []}),
        ("scores NaN", {"scores": [0.5, np.nan]}),
        ("labels", {"labels": ["a"] * 80}),
        ("labels", {"method": mp.MetaPS(**GUARANTEE, per_class=True)}),
    ):
        good: dict[str, Any] = {"method": mp.MetaPS(**GUARANTEE), "scores": np.linspace(0, 1, 80)}
        assert_refused(words, mp.make_site, **good | {"name": "ohio"} | changes)


def test_arrays_send_what_a_table_sends() -> None:
    frame = labelled_sites(1)
    method = mp.MetaPS(**GUARANTEE, per_class=True)
    matrix = frame[["p_no", "p_yes"]].to_numpy()
    sent = mp.make_site(method, matrix, frame.y, name="a", classes=["no", "yes"])
    table = site_table(frame, name="a", label="y", per_class=True, **GUARANTEE)
    assert replace(sent, columns=None) == replace(table, columns=None)


# What dishonest sites can do: tried out on thresholds, and enumerated.


def agree(
    split: str | float = "joint", delta: float | None = 0.1, per_class: bool = False
) -> mp.Guarantee:
    return mp.Guarantee(epsilon=0.1, alpha=0.3, delta=delta, split=split, per_class=per_class)


def calibrate(guarantee: mp.Guarantee, tasks: int, liars: int, lie: float) -> float:
    """Return the threshold if the last sites lie; honest ones send 1, 2, ... at every level."""
    sent = np.tile(np.arange(1.0, tasks + 1)[:, None], len(guarantee.levels))
    sent[tasks - liars :] = lie
    used, sizes = np.full(tasks, True), np.full(tasks, 1000)
    return Part(guarantee, None, used, sizes, sent, -np.inf, np.inf).second_step().threshold


@pytest.mark.parametrize("split", ["joint", "tight", "even"])
@pytest.mark.parametrize("tasks", [20, 40, 90])
def test_it_takes_as_many_liars_as_counted_and_no_fewer(split: str, tasks: int) -> None:
    guarantee = agree(split)
    needed = mp.count_liars(guarantee, tasks)
    assert calibrate(guarantee, tasks, needed.to_keep_all, -math.inf) == -math.inf
    assert calibrate(guarantee, tasks, needed.to_keep_all - 1, -math.inf) > -math.inf
    assert calibrate(guarantee, tasks, needed.to_empty, math.inf) == math.inf
    assert calibrate(guarantee, tasks, needed.to_empty - 1, math.inf) < math.inf


def test_extreme_numbers_of_liars() -> None:
    assert mp.count_liars(agree(), 2).to_keep_all == 0  # too few sites
    assert failure(agree(), 2, 1) == 0.0  # every label is kept
    assert mp.count_liars(mp.Guarantee(epsilon=0.1, alpha=0.1, delta=None), 10) == Liars(1, 10)
    values = [failure(agree(), 60, liars) for liars in (0, 5, 20, 60)]
    assert values[0] <= 0.1
    assert values == sorted(values)
    assert values[-1] == 1.0


def test_sites_that_are_too_small_help_the_liars() -> None:
    guarantee = agree()
    whole = mp.count_liars(guarantee, 90)

    def combine(guarantee: mp.Guarantee, *small: int) -> dict[str, int]:
        """Return what it takes if so many sites, of each class, send -inf anyway."""
        levels = len(guarantee.levels)
        classes = ("a", "b") if guarantee.per_class else None
        sent = []
        for i in range(90):
            row = tuple((-np.inf if i < few else 1.0,) * levels for few in small)
            sent.append(mp.Site(f"s{i}", guarantee, (99,) * len(row), row, np.dtype("f8"), classes))
        return summarise_liars(mp.combine_sites(sent, on_infeasible="trivial"))

    assert combine(guarantee, 0) == {"sites": 90, **whole._asdict()}
    assert combine(guarantee, 2)["to_keep_all"] == whole.to_keep_all - 2
    # Of several classes, the one that takes the fewest counts.
    each = combine(agree(per_class=True), 0, 0)["to_keep_all"]
    assert combine(agree(per_class=True), 0, 2)["to_keep_all"] == each - 2


@pytest.mark.parametrize("at_random", [False, True])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_the_failure_probability_is_that_of_the_worst_case(liars: int, at_random: bool) -> None:
    # Each site shows itself as broken with probability alpha_across: enumerate all sites, and all
    # choices of those that send inf. By default the worst choice counts, otherwise the first ones.
    tasks = 6
    guarantee = mp.Guarantee(epsilon=0.1, alpha=0.5, delta=0.3, split="tight")
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


def test_several_levels_are_counted_together() -> None:
    for guarantee, tasks, liars in ((agree(delta=0.2), 30, 3), (agree(), 100, 10)):
        shares = [level.alpha_across for level in guarantee.levels]
        ranks = np.array(guarantee.allowed_low_thresholds(tasks))
        # The sites that lie are those with the lowest thresholds, or any.
        hidden = np.where(ranks < 0, -1, ranks + liars).tolist()
        worst = oracles.grown_union_probability(tasks, shares, hidden)
        by_chance = oracles.grown_union_probability(tasks - liars, shares, ranks.tolist())
        assert failure(guarantee, tasks, liars) == pytest.approx(worst, rel=1e-9)
        assert failure(guarantee, tasks, liars, at_random=True) == pytest.approx(
            by_chance, rel=1e-9
        )
        assert worst > 2 * by_chance > 2 * failure(guarantee, tasks)


def test_bad_numbers_are_rejected() -> None:
    with pytest.raises(mp.InvalidInput, match="liars must be at most tasks, 5, got 6."):
        failure(agree(), 5, 6)
    with pytest.raises(mp.InvalidInput, match="has no failure probability"):
        failure(agree(delta=None), 50)


def test_only_sites_that_count_are_counted() -> None:
    scores, sizes = np.random.default_rng(0).random(40 * 60 + 5 * 10), [60] * 40 + [10] * 5
    sites = np.repeat(np.arange(45), sizes)
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
    predictor = mp.MetaPS(**levels, min_examples=30).calibrate(scores, sites)
    expected = mp.count_liars(predictor.guarantee_, 40)
    assert summarise_liars(predictor) == {"sites": 40, **expected._asdict()}
    assert summarise_liars(mp.MetaPS(**levels).calibrate(scores, sites))["sites"] == 45


@pytest.mark.parametrize("split", ["joint", "tight"])
@pytest.mark.parametrize("liars", [0, 1, 2])
def test_no_lie_takes_the_threshold_out_of_its_range(split: str, liars: int) -> None:
    scores, sizes = np.random.default_rng(0).random(10 * 40 + 2 * 20), [40] * 10 + [20] * 2
    method = mp.MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, split=split, min_examples=30)
    predictor = method.calibrate(scores, np.repeat(np.arange(12), sizes), allow=("levels",))
    (part,) = predictor._evidence.parts(predictor.guarantee_)
    reached = []
    for chosen in itertools.combinations(range(12), liars):
        for values in itertools.product([None, -math.inf, 0.1, 0.5, math.inf], repeat=liars):
            used, thresholds = part.used.copy(), part.thresholds.copy()
            for site, value in zip(chosen, values, strict=True):
                used[site] = value is not None
                thresholds[site] = 0.0 if value is None else value
            honest = part._replace(used=used, thresholds=thresholds).second_step().threshold
            reached.append(honest)
    assert (min(reached), max(reached)) == mp.bound_threshold(predictor, liars)
    assert predictor.threshold_ in reached


def test_a_range_for_each_class_and_for_sites_that_support_nothing() -> None:
    labels = np.tile(["a", "b"], 600)
    scores = np.random.default_rng(0).random(1200)
    predictor = mp.MetaPS(epsilon=0.3, alpha=0.4, delta=0.2, per_class=True)
    predictor.calibrate(scores, np.repeat(np.arange(30), 40), labels, allow=("levels",))
    for label in ("a", "b"):
        low, high = mp.bound_threshold(predictor, 1, label=label)
        assert low < predictor.threshold_of(label) < high
        assert mp.bound_threshold(predictor, 30, label=label) == (-math.inf, math.inf)
    with pytest.raises(mp.InvalidInput, match="label must be one of 'a', 'b', got None."):
        mp.bound_threshold(predictor, 1)
    with pytest.raises(
        mp.InvalidInput, match="liars must be at most the number of sites, 30, got 31"
    ):
        mp.bound_threshold(predictor, 31, label="a")
    trivial = mp.MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate(scores, np.repeat(np.arange(2), 600))
    assert mp.bound_threshold(trivial, 1) == (-math.inf, -math.inf)
