"""Sites: the few numbers that they send give the result of one table with all scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import BadArtefact, InfeasibleGuarantee, MetaPS, _document, load
from metapac.sites import Site, combine_sites, read_site
from metapac.tables import calibrate_table, site_table
from metapac.tasks.synthetic import NormalFamily
from tests.helpers.engines import connection

GUARANTEE: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}


def scores(count: int = 12) -> dict[str, Any]:
    family = NormalFamily()
    drawn = family.draw_scores(family.draw_tasks(count, rng=0), 80, rng=1)
    return {f"site {i}": row[: 80 - i] for i, row in enumerate(drawn)}


def send(name: str, values: Any, folder: Path, **changes: Any) -> Path:
    frame = pd.DataFrame({"p": values})
    there = connection("duckdb")
    site = site_table(frame, name=name, score="p", connection=there, **GUARANTEE | changes)
    site.save(folder / f"{name}.json")
    return folder / f"{name}.json"


@pytest.mark.parametrize("split", ["joint", "tight", 0.2])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_combined_sites_equal_one_table(tmp_path: Path, split: Any, kind: Any) -> None:
    data = {name: values.astype(kind) for name, values in scores().items()}
    files = [send(name, values, tmp_path, split=split) for name, values in data.items()]
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


@pytest.mark.parametrize(("split", "count"), [("joint", 13), ("tight", 1)])
def test_the_file_holds_a_number_for_each_level_and_no_scores(
    tmp_path: Path, split: str, count: int
) -> None:
    values = scores()["site 0"]
    document = json.loads(send("ohio", values, tmp_path, split=split).read_text())
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
        "thresholds", "precision", "checksum",
    }  # fmt: skip


def test_a_label_beside_class_scores(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": ["a", "b"] * 40, "p_a": np.linspace(0, 1, 80), "p_b": 0.5})
    site = site_table(frame, name="x", label="y", **GUARANTEE)
    true = np.where(frame.y == "a", frame.p_a, frame.p_b)
    assert site.thresholds == (tuple(MetaPS(**GUARANTEE).task_threshold(true).tolist()),)


def test_a_small_site_has_no_evidence_and_still_counts() -> None:
    site = site_table(pd.DataFrame({"p": [0.5]}), name="small", score="p", **GUARANTEE)
    assert site.thresholds == ((-np.inf,) * 13,)
    assert site.examples == (1,)


def labelled(count: int = 30) -> pd.DataFrame:
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


PER_CLASS: list[dict[str, Any]] = [
    {"label": "y"},
    {"label": "y", "classes": ["yes", "no"]},
    {"label": "y", "score": "true", "classes": ["no", "yes"]},
    {"label": "y", "score": "true", "epsilon": {"yes": 0.3, "no": 0.2}},
]


@pytest.mark.parametrize("how", PER_CLASS, ids=lambda how: " ".join(how))
@pytest.mark.parametrize("minimum", [0, 10])
def test_sites_with_a_guarantee_for_each_class(
    tmp_path: Path, how: dict[str, Any], minimum: int
) -> None:
    options = GUARANTEE | {"per_class": True, "min_examples": minimum, "delta": 0.4} | how
    frame, there = labelled(), connection("duckdb")
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


def test_sites_must_have_the_same_classes(tmp_path: Path) -> None:
    frame = labelled()
    options = GUARANTEE | {"per_class": True, "label": "y"}
    sites = [
        site_table(frame, name=str(i), classes=classes, **options)
        for i, classes in enumerate([["no", "yes"], ["yes", "no"]])
    ]
    with pytest.raises(ValueError, match="site '1' was computed with classes=.'yes', 'no'., but"):
        combine_sites(sites)
    with pytest.raises(
        ValueError, match="classes must name all classes if score is passed: they m"
    ):
        site_table(frame, name="a", score="true", **options)
    with pytest.raises(
        ValueError, match="epsilon names class 'x', but the classes are 'no', 'yes'"
    ):
        site_table(frame, name="a", **options | {"epsilon": {"x": 0.1, "no": 0.1}})
    with pytest.raises(
        ValueError, match="epsilon has no value for class 'yes', only for 'no'. Give"
    ):
        site_table(frame, name="a", **options | {"epsilon": {"no": 0.1}})
    with pytest.raises(ValueError, match="column 'y' must hold one of the classes 'no', got 'yes'"):
        site_table(frame, name="a", score="true", classes=["no"], **options)


@pytest.mark.parametrize("delta", [None, 0.1])
def test_sites_in_expectation_and_with_min_examples(tmp_path: Path, delta: float | None) -> None:
    data = scores(30)
    options = {"delta": delta, "min_examples": 60}
    files = [send(name, values, tmp_path, **options) for name, values in data.items()]
    combined = combine_sites(files)
    names = np.repeat(list(data), [len(values) for values in data.values()])
    expected = MetaPS(**GUARANTEE | options).calibrate(np.concatenate(list(data.values())), names)
    assert combined.threshold_ == expected.threshold_ > -np.inf
    assert combined.left_out_ == expected.left_out_ == 9
    assert combined.promise_ == expected.promise_


def test_precisions_of_sites_may_differ(tmp_path: Path) -> None:
    data = scores()
    files = [
        send(name, values.astype(np.float32 if i % 2 else np.float64), tmp_path)
        for i, (name, values) in enumerate(data.items())
    ]
    result = combine_sites(files)
    assert result.precision_ == np.float32
    assert result.threshold_ in result.task_thresholds_.tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.1}, "b.json was computed with epsilon=0.1, but .*a.json with epsilon=0.2"),
        ({"alpha": 0.2}, "b.json was computed with alpha=0.2, but .*a.json with alpha=0.3"),
        ({"delta": 0.2}, "b.json was computed with delta=0.2, but .*a.json with delta=0.1"),
        (
            {"split": "even"},
            "b.json was computed with split='even', but .*a.json with split='joint'",
        ),
        (
            {"min_examples": 3},
            "b.json was computed with min_examples=3, but .*a.json with min_examples=0",
        ),
        ({"delta": None}, "b.json was computed with delta=None, but .*a.json with delta=0.1"),
    ],
)
def test_sites_at_different_levels_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    values = scores()["site 0"]
    files = [send("a", values, tmp_path), send("b", values, tmp_path, **changes)]
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


def test_a_site_counts_once(tmp_path: Path) -> None:
    path = send("ohio", scores()["site 0"], tmp_path)
    again = path.rename(tmp_path / "first.json")
    files = [again, send("ohio", scores()["site 1"], tmp_path)]
    message = r"ohio.json and .*first.json are both of site 'ohio', and a site counts only once"
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


def test_too_few_sites_are_reported() -> None:
    site = site_table(pd.DataFrame({"p": scores()["site 0"]}), name="a", score="p", **GUARANTEE)
    with pytest.raises(InfeasibleGuarantee, match="cannot be guaranteed"):
        combine_sites([site])
    assert combine_sites([site], on_infeasible="trivial").threshold_ == -np.inf
    with pytest.raises(ValueError, match="sites is empty; pass at least one file written by"):
        combine_sites([])


def forge(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    document["checksum"] = _document.checksum(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"levels": [0.02]},
            r"has 1 rows of thresholds at levels \[0.02\], but this metapac expects 1 at \[0.15\] ",
        ),
        ({"thresholds": []}, "has 0 rows of thresholds at levels"),
        ({"thresholds": [[0.5, 0.6]]}, "has 1 rows of thresholds at levels"),
        ({"classes": ["a", "b"]}, "has 1 rows of thresholds at .* expects 2 at"),
        ({"examples": [-1]}, "is not a complete site file .InvalidInput: examples must hold"),
        ({"parameters": {}}, "is not a complete site file .TypeError"),
        ({"precision": "x"}, "is not a complete site file .TypeError"),
    ],
)
def test_an_inconsistent_file_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    path = send("a", scores()["site 0"], tmp_path, split="tight")
    forge(path, **changes)
    with pytest.raises(BadArtefact, match=message):
        read_site(path)


def test_other_and_edited_files_are_refused(tmp_path: Path) -> None:
    path = send("a", scores()["site 0"], tmp_path)
    path.write_text(path.read_text().replace('"examples": [80]', '"examples": [81]'))
    with pytest.raises(BadArtefact, match="was edited or damaged: its checksum does not match"):
        read_site(path)
    MetaPS(**GUARANTEE, on_infeasible="trivial").calibrate([0.5], ["a"]).save(path)
    with pytest.raises(
        BadArtefact, match="is not a metapac site file. Pass a file written by 'metapac s"
    ):
        read_site(path)
    send("a", scores()["site 0"], tmp_path)
    with pytest.raises(
        BadArtefact, match="is not a metapac promise file. Pass a file written by .save"
    ):
        load(path)


def test_a_threshold_impossible_for_its_size_is_refused() -> None:
    good = site_table(pd.DataFrame({"p": scores()["site 0"]}), name="a", score="p", **GUARANTEE)
    bad = Site("b", good.guarantee, (1,), ((0.5,) * 13,), good.precision)
    with pytest.raises(ValueError, match="holds 0.5 for task 'b', whose 1 examples are too few"):
        combine_sites([good, bad])
