"""Sites: their messages and files, when they agree, and what they give together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    BadArtefact,
    Guarantee,
    InfeasibleGuarantee,
    InvalidInput,
    MetaPS,
    Site,
    artefact,
    combine_sites,
    load,
    make_site,
    read_site,
)
from metapac.data_checks import CheckWarning
from metapac.federated import FORMAT
from tests.helpers.engines import connection
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
    ("changes", "message"),
    [
        ({"epsilon": 0.1}, "b.json .*epsilon=0.1, .*a.json .*epsilon=0.2"),
        ({"alpha": 0.2}, "b.json .*alpha=0.2, .*a.json .*alpha=0.3"),
        ({"delta": 0.2}, "b.json .*delta=0.2, .*a.json .*delta=0.1"),
        ({"split": "even"}, "b.json .*split='even', .*a.json .*split='joint'"),
        ({"min_examples": 3}, "b.json .*min_examples=3, .*a.json .*min_examples=0"),
        ({"delta": None}, "b.json .*delta=None, .*a.json .*delta=0.1"),
    ],
)
def test_sites_at_different_levels_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    values = draw_scores()["site 0"]
    files = [send_site("a", values, tmp_path), send_site("b", values, tmp_path, **changes)]
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


def test_sites_must_have_the_same_classes(tmp_path: Path) -> None:
    frame = labelled_sites()
    options = GUARANTEE | {"per_class": True, "label": "y"}
    sites = [
        site_table(frame, name=str(i), classes=classes, **options)
        for i, classes in enumerate([["no", "yes"], ["yes", "no"]])
    ]
    with pytest.raises(ValueError, match="site '1' .*classes=.'yes', 'no'.*site '0'"):
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
        ValueError, match="epsilon has no value for class 'yes', only for 'no'"
    ):
        site_table(frame, name="a", **options | {"epsilon": {"no": 0.1}})
    with pytest.raises(ValueError, match="column 'y' must hold one of the classes 'no', got 'yes'"):
        site_table(frame, name="a", score="true", classes=["no"], **options)


@pytest.mark.parametrize("odd", [0, 5, 28])
@pytest.mark.parametrize("sent", [["b", "a"], ["a", "b", "c"]])
def test_sites_have_one_order_of_classes(odd: int, sent: list[str]) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    sites = [
        Site(f"s{i}", agreed, (80,), ((0.5,),), np.dtype("float64"), columns={"classes": classes})
        for i in range(29)
        for classes in [sent if i == odd else ["a", "b"]]
    ]
    message = rf"site 's{odd or 1}' .*classes.* site 's0' "
    with pytest.raises(InvalidInput, match=message):
        combine_sites(sites)


def test_a_site_counts_once(tmp_path: Path) -> None:
    path = send_site("ohio", draw_scores()["site 0"], tmp_path)
    again = path.rename(tmp_path / "first.json")
    files = [again, send_site("ohio", draw_scores()["site 1"], tmp_path)]
    message = r"ohio.json and .*first.json .*'ohio'"
    with pytest.raises(ValueError, match=message):
        combine_sites(files)


@pytest.mark.parametrize("other", ["North ohio", "north  ohio", "NORTH OHIO"])
def test_one_site_under_two_names_counts_once(other: str) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    names = ["north ohio", other, *(f"site {i}" for i in range(12))]
    sites = [Site(name, agreed, (80,), ((0.5,),), np.dtype("float64")) for name in names]
    message = rf"'north ohio' and '{other}'.*allow=\('task-names',\)"
    with pytest.raises(InvalidInput, match=message):
        combine_sites(sites)
    assert len(combine_sites(sites, allow=["task-names"]).tasks_) == 14
    with pytest.raises(InvalidInput, match="must name checks to skip"):
        combine_sites(sites, allow=["names"])


def test_a_coarse_site_is_named(tmp_path: Path) -> None:
    agreed = Guarantee(**GUARANTEE, split="tight")
    sites = [Site(f"s{i}", agreed, (80,), ((0.5,),), np.dtype("float64")) for i in range(29)]
    assert combine_sites(sites).precision_ == np.float64
    sites[7] = replace(sites[7], precision=np.dtype("float16"))
    with pytest.warns(CheckWarning, match="float16.* 's7'"):
        combined = combine_sites(sites)
    combined.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").precision_ == np.float16


def test_precisions_of_sites_may_differ(tmp_path: Path) -> None:
    data = draw_scores()
    files = [
        send_site(name, values.astype(np.float32 if i % 2 else np.float64), tmp_path)
        for i, (name, values) in enumerate(data.items())
    ]
    with pytest.warns(CheckWarning, match="float32.* 'site 1', 'site 3'"):
        result = combine_sites(files)
    assert result.precision_ == np.float32
    assert result.threshold_ in result.task_thresholds_.tolist()


FIRST_VERSION = """{
"format": "metapac site",
"schema": 1,
"metapac": "0.1.0",
"site": "ohio",
"examples": 1200,
"parameters": {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2, "split": "tight"},
"levels": [0.15],
"thresholds": [0.194],
"precision": "float64",
"checksum": "sha256:7bd05e70be6131c211124671b43c477877326d0304e12639a8e23f4f6295f909"
}
"""


def test_a_site_of_the_first_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(FIRST_VERSION)
    site = read_site(tmp_path / "old.json")
    assert (site.name, site.examples, site.thresholds, site.classes) == (
        "ohio", (1200,), ((0.194,),), None,
    )  # fmt: skip
    site.save(tmp_path / "new.json")
    assert read_site(tmp_path / "new.json") == site
    (tmp_path / "old.json").write_text(FIRST_VERSION.replace("1200", "12000"))
    with pytest.raises(BadArtefact, match="its checksum does not match its content"):
        read_site(tmp_path / "old.json")


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


def test_a_file_of_an_older_version_has_no_columns(tmp_path: Path) -> None:
    path = send_site("ohio", draw_scores()["site 0"], tmp_path)
    site = read_site(path)
    replace(site, columns=None).save(path)
    assert "columns" not in json.loads(path.read_text())
    assert read_site(path) == replace(site, columns=None) != site


def forge(path: Path, **changes: Any) -> None:
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    document["checksum"] = artefact.checksum(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": [0.02]}, r"levels \[0.02\]"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [[0.5, 0.6]]}, r"thresholds .*\(1, 2\)"),
        ({"thresholds": [[0.1]], "precision": "float16"}, "no float16 score"),
        ({"classes": ["a", "b"]}, "classes must be None"),
        ({"examples": [-1]}, "examples"),
        ({"examples": [1]}, "1 examples are too few"),
        ({"parameters": {}}, "epsilon"),
        ({"range": [0.9, 0.1]}, "between the lowest"),
        ({"precision": "x"}, "precision"),
    ],
)
def test_an_inconsistent_file_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    path = send_site("a", draw_scores()["site 0"], tmp_path, split="tight")
    forge(path, **changes)
    with pytest.raises(BadArtefact, match=message):
        read_site(path)


def test_other_and_edited_files_are_refused(tmp_path: Path) -> None:
    path = send_site("a", draw_scores()["site 0"], tmp_path)
    path.write_text(path.read_text().replace('"examples": [80]', '"examples": [81]'))
    with pytest.raises(BadArtefact, match="was edited or damaged: its checksum does not match"):
        read_site(path)
    MetaPS(**GUARANTEE, on_infeasible="trivial").calibrate([0.5], ["a"]).save(path)
    with pytest.raises(
        BadArtefact, match="is not a metapac site file. .* This is a metapac promise file.$"
    ):
        read_site(path)
    send_site("a", draw_scores()["site 0"], tmp_path)
    with pytest.raises(
        BadArtefact, match="is not a metapac promise file. Pass one written by .save"
    ):
        load(path)


AGREED = Guarantee(**GUARANTEE, split="tight")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        *(({"name": value}, "name") for value in ("", " ", " a", 3, None, "a\n")),
        ({"model": ""}, "model"),
        ({"score": ""}, "score"),
        ({"examples": (-1,)}, "examples"),
        ({"examples": (80, 80)}, "examples"),
        ({"examples": (1,)}, "1 examples are too few"),
        ({"thresholds": ((np.nan,),)}, "thresholds"),
        ({"thresholds": ((0.5, 0.5),)}, "thresholds"),
        ({"thresholds": ((0.1,),), "precision": np.dtype("float32")}, "no float32 score"),
        ({"thresholds": ((1e300,),), "precision": np.dtype("float32")}, "no float32 score"),
        ({"precision": "int64"}, "precision"),
        ({"classes": ("a",)}, "classes"),
        ({"guarantee": replace(AGREED, per_class=True)}, "classes"),
        ({"columns": {"prediction": "guess", "y": "truth"}}, "at most 0"),
        ({"range": (0.9, 0.1)}, "between the lowest"),
    ],
)
def test_a_message_that_no_data_give_is_refused(changes: dict[str, Any], word: str) -> None:
    good = Site("ohio", AGREED, (80,), ((0.5,),), np.dtype("float64"))
    with pytest.raises(InvalidInput) as raised:
        replace(good, **changes)
    assert raised.value.parameters == (word,) or word in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"scores": []}, "scores"),
        ({"scores": [0.5, np.nan]}, "NaN"),
        ({"labels": ["a"] * 80}, "labels"),
        ({"allow": ["typo"]}, "allow"),
        ({"method": MetaPS(**GUARANTEE | {"epsilon": 2})}, "epsilon"),
        ({"method": MetaPS(**GUARANTEE, per_class=True)}, "labels"),
    ],
)
def test_bad_data_of_a_site(changes: dict[str, Any], word: str) -> None:
    arguments: dict[str, Any] = {"method": MetaPS(**GUARANTEE), "scores": draw_scores()["site 0"]}
    with pytest.raises(InvalidInput) as raised:
        make_site(**arguments | {"name": "ohio"} | changes)
    assert raised.value.parameters == (word,) or word in str(raised.value)


def test_arrays_send_what_a_table_sends() -> None:
    frame = labelled_sites(1)
    method = MetaPS(**GUARANTEE, per_class=True)
    matrix = frame[["p_no", "p_yes"]].to_numpy()
    sent = make_site(method, matrix, frame.y, name="a", classes=["no", "yes"])
    table = site_table(frame, name="a", label="y", per_class=True, **GUARANTEE)
    assert replace(sent, columns=None) == replace(table, columns=None)


def test_thresholds_of_predicted_numbers_are_never_positive(tmp_path: Path) -> None:
    names = {"prediction": "guess", "y": "truth"}
    agreed = Guarantee(**GUARANTEE)
    good = Site("ohio", agreed, (1200,), ((0.0,) * 13,), np.dtype("f8"), columns=names)
    words = "site 'ohio': thresholds of predicted numbers must be at most 0, got 0.25: their scores"
    with pytest.raises(InvalidInput, match=words):
        replace(good, thresholds=((0.0,) * 12 + (0.25,),))
    positive = replace(good, thresholds=((0.25,) * 13,), columns=None)
    positive.save(tmp_path / "ohio.json")
    body = artefact.read(tmp_path / "ohio.json", FORMAT)
    own = {k: v for k, v in body.items() if k not in {"format", "schema", "metapac", "checksum"}}
    artefact.write(tmp_path / "ohio.json", own | {"columns": names}, FORMAT)
    with pytest.raises(BadArtefact, match=r"ohio\.json .*at most 0, got 0\.25"):
        combine_sites([tmp_path / "ohio.json"])
