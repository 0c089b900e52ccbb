"""A task counts once and is new once, under whatever name it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import (
    Context,
    Guarantee,
    InvalidInput,
    MetaPS,
    Monitor,
    Site,
    combine_sites,
    evaluate,
    load,
)
from metapac.data_checks import Contents, judge_copies
from metapac.inputs import fold_name, fold_names
from tests.helpers.calibrations import collect_evidence
from tests.helpers.commands import metapac
from tests.helpers.tables import calibrate_table, evaluate_table

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
COMMUNES = [f"c{i}" for i in range(78)]


def draw(names: list[Any], digits: int = 16, examples: int = 143, rng: int = 0) -> pd.DataFrame:
    """Return scores that stay within the guarantee, so that a verdict on them is "holds"."""
    scores = np.random.default_rng(rng).beta(8, 1, len(names) * examples)
    return pd.DataFrame({"commune": np.repeat(names, examples), "score": scores.round(digits)})


def calibrate(frame: pd.DataFrame, **options: Any) -> MetaPS:
    return MetaPS(**LEVELS).calibrate(frame.score, frame.commune, **options)


SPELLINGS: dict[str, Any] = {
    "space": lambda i: f"c{i} ",
    "case": lambda i: f"C{i}",
    "zeros": lambda i: f"c{i:03d}",
    "width": lambda i: f"\N{FULLWIDTH LATIN SMALL LETTER C}{i}",
    "another name": lambda i: f"commune {i}",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("place", ["arrays", "table", "monitor"])
def test_calibration_tasks_are_never_taken_for_new(spelling: str, place: str) -> None:
    known = draw(COMMUNES)
    promise = calibrate(known)
    renamed = known.assign(commune=np.repeat([SPELLINGS[spelling](i) for i in range(78)], 143))
    check = "duplicates" if spelling == "another name" else "task-names"
    calls: dict[str, Any] = {
        "arrays": lambda **k: evaluate(promise, renamed.score, renamed.commune, **k),
        "table": lambda **k: evaluate_table(promise, renamed, task="commune", score="score", **k),
        "monitor": lambda **k: Monitor(promise).add(renamed.score, renamed.commune, **k),
    }
    with pytest.raises(InvalidInput, match=rf"(?s)'c0'.*allow=\('{check}',\)"):
        calls[place]()
    calls[place](allow=["task-names", "duplicates"])


@pytest.mark.parametrize(("was", "now"), [("1.0", "1"), ("1", "1.0"), (1, "001"), ("1", "1 ")])
def test_ids_that_went_through_another_program(was: Any, now: str) -> None:
    promise = calibrate(draw([was, *range(100, 177)] if was == 1 else [was, *COMMUNES]))
    new = draw([now, "other"], rng=1)
    with pytest.raises(InvalidInput, match=f"{now!r} and {was!r}"):
        evaluate(promise, new.score, new.commune)


def test_the_same_name_is_left_out_and_named() -> None:
    new = draw(["c3", "other"], rng=1)
    assert evaluate(calibrate(draw(COMMUNES)), new.score, new.commune).overlap == ("c3",)


@pytest.mark.parametrize("role", ["trained_on", "pilot"])
def test_training_and_pilot_tasks_are_recognised(role: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {role: ["C7", "else"]}
    context = Context(**names)
    with pytest.raises(InvalidInput, match="'C7' and 'c7'"):
        calibrate(draw(COMMUNES), context=context)
    promise = calibrate(draw(COMMUNES), context=context, allow=["task-names"])
    new = draw(["ELSE", "other"], rng=1)
    with pytest.raises(InvalidInput, match="'ELSE' and 'else'"):
        evaluate(promise, new.score, new.commune)
    promise.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == promise.threshold_


def test_hospitals_counted_twice() -> None:
    once = draw([f"hospital {i}" for i in range(15)], examples=400)
    twice = pd.concat([once, once.assign(commune=once.commune.str.replace("hospital ", "H-"))])
    for call in (calibrate, lambda f: calibrate_table(f, task="commune", score="score", **LEVELS)):
        with pytest.raises(InvalidInput, match=r"'H-0' and 'hospital 0'|'hospital 0' and 'H-0'"):
            call(twice)
    assert len(calibrate(twice, allow=["duplicates"]).tasks_) == 30
    rest = once.assign(score=once.score / 2, commune="x" + once.commune)
    promise = calibrate(pd.concat([once, rest]))
    with pytest.raises(InvalidInput, match="and 'hospital 0'"):
        promise.add(once.score[:400], ["new"] * 400)
    with pytest.raises(InvalidInput, match="'Hospital 0'"):
        promise.add(once.score[:400] / 3, ["Hospital 0"] * 400)


@pytest.mark.parametrize("per_class", [False, True])
def test_a_site_that_sends_two_files(tmp_path: Path, per_class: bool) -> None:
    agreed = Guarantee(epsilon=0.2, alpha=0.2, delta=0.2, split="tight", per_class=per_class)
    rng, paths = np.random.default_rng(0), []
    for i in range(40):
        scores, labels = rng.beta(8, 1, 100), rng.integers(0, 2, 100) if per_class else None
        evidence = collect_evidence(agreed, scores, ["here"] * 100, labels)
        Site.from_evidence(f"site {i}", agreed, evidence).save(tmp_path / f"{i}.json")
        paths.append(tmp_path / f"{i}.json")
    assert len(combine_sites(paths).tasks_) == 40
    Site.from_evidence("elsewhere", agreed, evidence).save(tmp_path / "copy.json")
    with pytest.raises(InvalidInput, match="'site 39' and 'elsewhere'"):
        combine_sites([*paths, tmp_path / "copy.json"])
    assert len(combine_sites([*paths, tmp_path / "copy.json"], allow=["duplicates"]).tasks_) == 41


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
@pytest.mark.parametrize(
    ("known", "new", "sizes"),
    [(30, 30, (20, 21)), (30, 1000, (20, 21)), (60, 60, (100, 101)), (80, 40, (100, 190))],
)
def test_honest_tasks_are_not_taken_for_copies(
    kind: str, known: int, new: int, sizes: tuple[int, int]
) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        old = contents(rng, known, sizes, HONEST[kind])
        assert judge_copies(old) is None
        assert judge_copies(contents(rng, new, sizes, HONEST[kind]), old) is None


@pytest.mark.parametrize(("digits", "times"), [(16, 2), (5, 2), (16, 5), (5, 5)])
def test_all_tasks_counted_several_times(digits: int, times: int) -> None:
    for seed in range(10):
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


def test_commands_speak_of_names(tmp_path: Path) -> None:
    known = draw([float(i) for i in range(78)])
    known.to_csv(tmp_path / "known.csv", index=False)
    known.assign(commune=known.commune.astype(int)).to_csv(tmp_path / "new.csv", index=False)
    levels = [f"--{name}={value}" for name, value in LEVELS.items()]
    columns = "--task", "commune", "--score", "score"
    promise = tmp_path / "p.json"
    done = metapac("calibrate", tmp_path / "known.csv", *columns, *levels, "-o", promise)
    assert done.exit_code == 0, done.output
    for words in (["evaluate"], ["monitor", "--state", tmp_path / "state.json"]):
        command, *options = words
        refused = metapac(command, promise, tmp_path / "new.csv", *options)
        assert refused.exit_code == 2
        assert "--allow task-names" in " ".join(refused.output.split())
    trained = tmp_path / "trained.txt"
    trained.write_text("1\n10\n")
    refused = metapac(
        "calibrate", tmp_path / "known.csv", *columns, *levels, "--trained-on", trained, "-o",
        tmp_path / "q.json",
    )  # fmt: skip
    assert refused.exit_code == 2
    assert not (tmp_path / "q.json").exists()


def add_second_half(frame: pd.DataFrame) -> MetaPS:
    first = frame.commune.isin(COMMUNES[:40])
    promise = MetaPS(**LEVELS | {"alpha": 0.2}).calibrate(frame.score[first], frame.commune[first])
    return promise.add(frame.score[~first].astype(np.float32), frame.commune[~first])


def calibrate_classes(frame: pd.DataFrame) -> MetaPS:
    labels = np.where(np.arange(len(frame)) % 3, "no", "yes")
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.2, per_class=True)
    return method.calibrate(frame.score, frame.commune, labels)


@pytest.mark.parametrize(
    "calibrate_somehow",
    [
        add_second_half,
        calibrate_classes,
        lambda f: calibrate(f, clusters={name: f"owner of {name}" for name in COMMUNES}),
        lambda f: calibrate_table(f, task="commune", score="score", **LEVELS),
        lambda f: calibrate(f.assign(score=f.score.astype(np.float32))),
    ],
    ids=["add", "per class", "clusters", "table", "float32"],
)
def test_any_single_task_is_recognised_from_the_file(
    calibrate_somehow: Any, tmp_path: Path
) -> None:
    known = draw(COMMUNES)
    calibrate_somehow(known).save(tmp_path / "promise.json")
    promise = load(tmp_path / "promise.json")

    def judge(frame: pd.DataFrame) -> int:
        labels = np.where(np.arange(len(frame)) % 3, "no", "yes") if promise.classes_ else None
        clusters = None if promise.clusters_ is None else {name: name for name in "axy"}
        result = evaluate(promise, frame.score, frame.commune, labels, clusters=clusters)
        return len(result.tasks)

    others = draw(["x", "y"], rng=1)
    for name in ("c1", "c50", "c77"):
        copied = known[known.commune == name].assign(commune="a")
        with pytest.raises(InvalidInput, match=f"'a' and '{name}'"):
            judge(pd.concat([others, copied.iloc[::-1]]))
    assert judge(others) == 2


def test_coarse_scores_betray_a_whole_table_but_no_single_task() -> None:
    known = draw(COMMUNES, digits=3)
    known = known[np.random.default_rng(0).random(len(known)) < 0.9]  # so that sizes differ
    promise = calibrate(known)
    copy = known[known.commune == "c0"].assign(commune="x")
    one = pd.concat([draw([f"n{i}" for i in range(30)], 3, rng=1), copy])
    evaluate(promise, one.score, one.commune)
    with pytest.raises(InvalidInput, match="allow=\\('duplicates',\\)"):
        evaluate(promise, known.score, "new " + known.commune)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Ohio", " ohio\t", True),
        ("site 007", "SITE 7", True),
        ("1", "1.0", True),
        ("1", "01.00", True),
        (-3, "-3.0", True),
        ("2020-01", "2020-1", True),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}", True),
        ("a\N{ZERO WIDTH SPACE}b", "ab", True),
        ("Site 07", "SITE7", True),
        ("a-b", "a b", False),
        ("1 0", "10", False),
        ("0 10", "1 0", False),
        ("1.05", "1.5", False),
        ("1.5", "1.50", False),
        ("10", "1", False),
        ("0", "00", True),
        ("v1.0", "v1", False),
        ("", "0", False),
    ],
)
def test_the_rule_for_names(one: Any, other: Any, is_same: bool) -> None:
    assert (fold_name(one) == fold_name(other)) == is_same


@pytest.mark.parametrize("growth", [0, 0.5])
def test_clipped_scores_pass(growth: float) -> None:
    """Both ends of the range are the same in all tasks, to the last digit."""
    for seed in range(10):
        rng, frames = np.random.default_rng(seed), []
        for i in range(60):
            odds = rng.normal(20, 10, 100 + int(growth * i))  # every two tasks have one size
            odds[:2], odds[2:4] = -40, 40
            scores = np.log(np.clip(1 / (1 + np.exp(-odds)), 1e-12, 1 - 1e-12))
            frames.append(pd.DataFrame({"commune": f"c{i}", "score": scores}))
        promise = calibrate(pd.concat(frames[1:51]))
        new = pd.concat([frames[0], *frames[51:]])
        evaluate(promise, new.score, new.commune)


def test_tasks_that_share_a_range_by_design_pass() -> None:
    promise, new = calibrate(draw(COMMUNES)), draw(["a", "b"], rng=1)
    constant = pd.DataFrame({"commune": ["x"] * 50 + ["y"] * 50, "score": 0.123456789})
    middle = new[:143].sort_values("score").drop(index=new.score[:143].sort_values().index[70])
    table = pd.concat([new, constant, middle.assign(commune="z")])  # z has one example less than a
    assert len(evaluate(promise, table.score, table.commune).tasks) == 5


def test_tasks_whose_scores_have_two_values_pass() -> None:
    """As after adaptation to examples of one label."""
    rng = np.random.default_rng(0)
    frame = draw(COMMUNES)
    for name in COMMUNES[::3]:
        frame.loc[frame.commune == name, "score"] = rng.choice([0.3141592653, 0.8141592653], 143)
    assert len(calibrate(frame).tasks_) == 78


def test_a_new_task_under_two_names_counts_once() -> None:
    promise, new = calibrate(draw(COMMUNES)), draw(["a", "b"], rng=1)
    twice = pd.concat([new, new[:143].assign(commune="other")])
    with pytest.raises(InvalidInput, match="'other' and 'a'"):
        evaluate(promise, twice.score, twice.commune)
    known = draw(COMMUNES)
    again = evaluate(promise, known.score, known.commune, allow=["overlap"])
    assert len(again.tasks) == 78  # of the same names, which the user takes for new


def test_clusters_are_compared_by_the_same_rule() -> None:
    promise = calibrate(draw(COMMUNES), clusters={name: f"owner {name}" for name in COMMUNES})
    new = draw(["x", "y"], rng=1)
    owners = {"x": "Owner c7", "y": "another"}
    with pytest.raises(InvalidInput, match="1 cluster .*'Owner c7' and 'owner c7'"):
        evaluate(promise, new.score, new.commune, clusters=owners)


@given(st.lists(st.text(alphabet="aA0 17.\n\t\u00e9", max_size=6)))
def test_names_are_folded_one_by_one_or_together(names: list[str]) -> None:
    assert fold_names(names) == [fold_name(name) for name in names]
