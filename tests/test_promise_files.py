"""Promise files: written, read back as they were, and refused if they were changed."""

from __future__ import annotations

import copy
import html
import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import metapac
from metapac import PS, BadArtefact, MetaPS, NotCalibrated, artefact, load
from metapac.fewshot import MetaCP
from metapac.words import round_down


def calibrated(**changes: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    names = [f'site {i}, "quoted" \N{SNOWMAN} \n' for i in range(130)]
    levels = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5} | changes
    return MetaPS(**levels).calibrate(rng.normal(size=130 * 60), np.repeat(names, 60))


def edit(path: Path, **changes: Any) -> None:
    """Change a file as one would who knows the format but not the checksum."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def forge(path: Path, **changes: Any) -> None:
    """Change a file and make its checksum right again."""
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    document["checksum"] = artefact.checksum(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("split", ["joint", "tight", "even", 0.3])
def test_what_was_saved_comes_back(tmp_path: Path, split: str | float) -> None:
    before = calibrated(split=split, delta=0.01)
    before.save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert type(after) is MetaPS
    assert after.get_params() == before.get_params()
    assert after.threshold_ == before.threshold_
    assert after.promise_ == before.promise_
    assert after.tasks_.tolist() == before.tasks_.tolist()
    np.testing.assert_array_equal(after.task_thresholds_, before.task_thresholds_)
    more = np.random.default_rng(1).normal(size=100)
    assert after.add(more, ["new"] * 100).threshold_ == before.add(more, ["new"] * 100).threshold_


def test_ps_comes_back_with_its_precision(tmp_path: Path) -> None:
    before = PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.1, dtype=np.float32))
    before.save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert after.precision_ == np.float32
    assert after.predict_set([0.1]).all()
    assert str(after) == str(before)


def test_integers_and_infinities_come_back(tmp_path: Path) -> None:
    trivial = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    trivial.calibrate([0.5, 0.6], [2**40, 7]).save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert after.tasks_.tolist() == [2**40, 7]
    assert after.threshold_ == -math.inf
    assert "Infinity" not in (tmp_path / "promise.json").read_text()


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    method = calibrated()
    method.save(tmp_path / "promise.json")
    document = json.loads((tmp_path / "promise.json").read_text())
    assert document["format"] == "metapac promise"
    assert document["schema"] == 1
    assert document["metapac"] == metapac.__version__
    assert document["promise"] == method.promise_
    assert len(document["evidence"]["tasks"]) == len(document["evidence"]["thresholds"]) == 130
    assert document["checksum"].startswith("sha256:")


def test_every_changed_character_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.125)).save(path)
    text = path.read_text()
    for i, character in enumerate(text):
        if character.isspace():
            continue
        path.write_text(text[:i] + ("8" if character != "8" else "9") + text[i + 1 :])
        with pytest.raises(BadArtefact):
            load(path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.125)).save(path)
    text = path.read_text().rstrip()
    for end in range(1, len(text)):
        path.write_text(text[:end])
        with pytest.raises(BadArtefact, match="is not complete JSON .* truncated. Calib"):
            load(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: edit(path, threshold=0.5), "was edited or damaged: its checksum does not"),
        (lambda path: edit(path, checksum=None), "was edited or damaged"),
        (
            lambda path: edit(path, schema=2, metapac="9.9"),
            "has schema 2, .* Upgrade",
        ),
        (lambda path: edit(path, schema="1"), "has schema '1'"),
        (
            lambda path: path.write_text("[]"),
            "is not a metapac promise file. Pass one written by",
        ),
        (lambda path: path.write_text('{"a": 1}'), "is not a metapac promise"),
        (lambda path: path.write_bytes(b"{\xff\xfe"), "is not complete JSON"),
        (lambda path: path.write_bytes(b""), "is not a metapac promise"),
        (lambda path: path.write_text("site,p_cat\n"), "is not a metapac promise"),
        (lambda path: forge(path, threshold=0.5), "threshold is 0.5, but the evidence gives"),
        (
            lambda path: forge(path, kind="Oracle"),
            "Oracle.* Calibrate",
        ),
        (lambda path: forge(path, evidence={}), "promise file: .*tasks.*Calibr"),
        (lambda path: forge(path, parameters=[]), "promise file"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "promise.json"
    calibrated().save(path)
    damage(path)
    with pytest.raises(BadArtefact, match=message):
        load(path)


def test_a_missing_file_is_not_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.json")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="folder does not exist; create it .*nowhere"):
        calibrated().save(tmp_path / "nowhere" / "promise.json")


def test_names_that_json_cannot_preserve_are_refused(tmp_path: Path) -> None:
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.5], [("ohio", 2020)])
    with pytest.raises(ValueError, match=r"tasks must be strings or integers to be saved, got \('"):
        method.save(tmp_path / "promise.json")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_any_kind_can_be_saved(tmp_path: Path) -> None:
    odd = MetaPS(epsilon=Fraction(1, 10), alpha=np.float32(0.25), delta=0.01)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    odd.calibrate(rng.normal(size=130 * 60), np.repeat(np.arange(130), 60))
    odd.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == odd.threshold_


def test_a_trivial_result_comes_back_even_if_calibrating_would_raise(tmp_path: Path) -> None:
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.5], ["a"]).set_params(on_infeasible="raise").save(tmp_path / "p.json")
    assert load(tmp_path / "p.json").threshold_ == -math.inf


def test_a_subclass_comes_back_as_its_parent(tmp_path: Path) -> None:
    class Subclass(PS):
        pass

    Subclass(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.5)).save(tmp_path / "promise.json")
    assert type(load(tmp_path / "promise.json")) is PS


def test_results_are_missing_before_calibration() -> None:
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1)
    for name in ("threshold_", "thresholds_", "promise_", "remarks_"):
        with pytest.raises(NotCalibrated, match="this MetaPS is not calibrated yet. Call .calibr"):
            getattr(method, name)
        assert not hasattr(method, name)
    with pytest.raises(NotCalibrated, match="not calibrated"):
        method.save("promise.json")
    assert str(method) == repr(method)


def test_one_threshold_and_thresholds_per_class_point_to_each_other() -> None:
    options: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(2000), np.arange(2000) % 40
    shared = MetaPS(**options).calibrate(scores, tasks)
    separate = MetaPS(**options, per_class=True).calibrate(scores, tasks, np.arange(2000) // 1000)
    assert shared.threshold_of("any label") == shared.threshold_
    assert [separate.threshold_of(label) for label in (0, 1)] == separate.thresholds_.tolist()
    with pytest.raises(NotCalibrated, match="thresholds_"):
        _ = separate.threshold_
    with pytest.raises(AttributeError, match="threshold_of"):
        _ = shared.thresholds_


def test_changed_parameters_need_a_new_calibration() -> None:
    method = calibrated(delta=0.01)
    before = method.threshold_
    method.set_params(on_infeasible="trivial")  # the guarantee does not depend on it
    assert method.threshold_ == before
    method.set_params(alpha=0.2)
    assert method.threshold_ == before  # only what relies on the guarantee is refused
    for use in (lambda: method.predict_set([0.5]), method.check_calibrated):
        with pytest.raises(NotCalibrated, match="was calibrated with .*'alpha': 0.1.* changed to"):
            use()


def test_copies_are_calibrated_too() -> None:
    method = calibrated(delta=0.01)
    for twin in (copy.deepcopy(method), pickle.loads(pickle.dumps(method))):
        assert twin.threshold_ == method.threshold_
        assert twin.promise_ == method.promise_


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": [2**70] * 130}, r"evidence.sizes"),
        ({"tasks": ["a"]}, r"evidence.sizes must have shape \(1,\), by .* got \(130,\)"),
        ({"lowest": []}, "evidence.lowest"),
        ({"thresholds": "x"}, "evidence.thresholds"),
        ({"tasks": [["a"]]}, r"tasks"),
    ],
)
def test_forged_evidence_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    path = tmp_path / "promise.json"
    calibrated().save(path)
    forge(path, evidence=json.loads(path.read_text())["evidence"] | changes)
    with pytest.raises(BadArtefact, match=f"is not a valid metapac promise file: {message}"):
        load(path)


def test_the_repr_shows_what_was_calibrated() -> None:
    scores, tasks = np.random.default_rng(0).random(6000), np.repeat(np.arange(120), 50)
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
    before = (
        "MetaPS(epsilon=0.1, alpha=0.1, delta=0.05, split='joint', per_class=False, "
        "min_examples=0, on_infeasible='raise')"
    )
    assert repr(method) == before
    assert method._repr_html_() == f"<pre>{html.escape(before)}</pre>"
    method.calibrate(scores, tasks)
    shown = round_down(method.threshold_)
    assert repr(method) == (
        f"<MetaPS(epsilon=0.1, alpha=0.1, delta=0.05) calibrated on 120 tasks, threshold {shown}>"
    )
    card = method._repr_html_()
    assert html.escape(repr(method)) in card
    assert html.escape(method.promise_) in card
    assert repr(clone(method)) == before
    assert repr(method.set_params(alpha=0.2)).startswith("MetaPS(epsilon=0.1, alpha=0.2")
    assert method._repr_html_().startswith("<pre>")


def test_the_repr_of_every_kind() -> None:
    scores, tasks = np.random.default_rng(0).random(6000), np.repeat(np.arange(120), 50)
    labels = np.arange(6000) % 5
    each = MetaPS(epsilon=0.4, alpha=0.4, delta=None, per_class=True)
    each.calibrate(scores, tasks, labels)
    first = ", ".join(f"{i} {round_down(each.threshold_of(i))}" for i in range(3))
    assert repr(each) == (
        "<MetaPS(epsilon=0.4, alpha=0.4, delta=None, per_class=True) calibrated on 120 tasks, "
        f"thresholds {first} and 2 more>"
    )
    ps = PS(epsilon=0.1, delta=0.05).calibrate(scores)
    assert repr(ps).endswith(
        f"calibrated on 6,000 examples, threshold {round_down(ps.threshold_)}>"
    )
    cp = MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.full(120, -0.2))
    assert repr(cp) == (
        f"<MetaCP(epsilon=0.2, delta=0.1) calibrated on 120 tasks, lambda {cp.lambda_:.3g}>"
    )


# Files of every kind and version.


@pytest.mark.parametrize("kind", ["MetaPS", "PS", "MetaCP"])
def test_every_kind_is_found_without_importing_it_first(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(3000), np.repeat(np.arange(60), 50)
    methods: dict[str, Any] = {
        "MetaPS": lambda: MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(scores, tasks),
        "PS": lambda: PS(epsilon=0.2, delta=0.1).calibrate(scores),
        "MetaCP": lambda: MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.zeros(60)),
    }
    before = methods[kind]()
    before.save(tmp_path / "promise.json")
    code = "import sys, metapac; print(metapac.load(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "promise.json")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"{before.promise_}\n"
    assert type(load(tmp_path / "promise.json")).__name__ == kind


def saved(path: Path, **changes: Any) -> dict[str, Any]:
    """Write a promise file with changes and a right checksum; return its document."""
    tasks = np.repeat(np.arange(60), 50)
    scores = np.random.default_rng(0).random(3000)
    MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(scores, tasks).save(path)
    document: dict[str, Any] = json.loads(path.read_text()) | changes
    del document["checksum"]
    path.write_text(json.dumps(document | {"checksum": artefact.checksum(document)}))
    return document


SHARED = {"format": "metapac promise", "schema": 1, "metapac": "0.1.0", "precision": "float64"}


FIRST_VERSION: dict[str, dict[str, Any]] = {  # as metapac 0.1.0 wrote them
    "MetaPS": {
        "kind": "MetaPS",
        "parameters": {
            "epsilon": 0.3, "alpha": 0.5, "delta": 0.4, "split": "tight", "on_infeasible": "raise",
        },
        "promise": "With probability at least 1 - 0.4 over the 6 calibration tasks, the sets "
        "{label: score >= 0.04} miss the true label at most 30% of the time on at least 50% of new "
        "tasks (each with its own adaptation examples, if any), provided that tasks are drawn "
        "independently and alike, that no calibration task was seen in training, and that one "
        "fixed score function serves them all.",
        "threshold": 0.04,
        "columns": None,
        "evidence": {
            "tasks": ["a", "b", "c", "d", "e", "f"],
            "sizes": [10, 10, 10, 10, 10, 10],
            "thresholds": [[0.04], [0.03], [0.12], [0.31], [0.23], [0.06]],
        },
        "checksum": "sha256:16d864867e170bcfbd5a593a9e30c2a5e5408383cb6cd39a79b35e28ad4da58b",
    },
    "PS": {
        "kind": "PS",
        "parameters": {"epsilon": 0.2, "delta": 0.1, "on_infeasible": "raise"},
        "promise": "With probability at least 1 - 0.1 over the 60 calibration examples, the sets "
        "{label: score >= 0.08} miss the true label at most 20% of the time on new examples, "
        "provided that these are drawn independently from the same distribution, that no "
        "calibration example was seen in training, and that the score function is fixed; nothing "
        "is said of any one task inside that distribution.",
        "threshold": 0.08,
        "evidence": {"examples": 60},
        "checksum": "sha256:99680cd0cc63a050e4c57397e82e4391a4a467d0d59e4c4d0a630cbb0da54fec",
    },
    "MetaCP": {
        "kind": "MetaCP",
        "parameters": {"epsilon": 0.5, "delta": 0.4, "over": "tasks", "on_infeasible": "raise"},
        "promise": "With probability at least 1 - 0.4 over the 6 calibration tasks and their "
        "examples, the sets {label: score >= -(quantile + -0.06)} miss the true label at most 50% "
        "of the time on average over new tasks, not on each of them, provided that tasks are drawn "
        "independently and alike, that no calibration task was seen in training, and that one "
        "fixed score function and one fixed quantile predictor serve them all.",
        "lambda": -0.06,
        "evidence": {
            "tasks": ["a", "b", "c", "d", "e", "f"],
            "sizes": [10, 10, 10, 10, 10, 10],
            "quantiles": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        },
        "checksum": "sha256:092b4afaceb28c40a6f867b50be72126ea045f44cb479f139b4b3a4c5b6336ff",
    },
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), [("MetaPS", 0.04), ("PS", 0.08), ("MetaCP", -0.06)])
def test_promises_of_the_first_version_are_read(tmp_path: Path, kind: str, value: float) -> None:
    (tmp_path / "old.json").write_text(json.dumps(SHARED | FIRST_VERSION[kind]))
    predictor = load(tmp_path / "old.json")
    assert (type(predictor).__name__, predictor._result()[1]) == (kind, value)
    predictor.save(tmp_path / "new.json")
    assert load(tmp_path / "new.json")._result() == predictor._result()


@pytest.mark.parametrize("version", [{}, {"metapac": "0.2.0"}])
def test_the_sentence_is_computed_not_read(tmp_path: Path, version: dict[str, str]) -> None:
    path = tmp_path / "promise.json"
    stated = saved(path)["promise"]
    saved(path, promise="The same, in other words.", **version)
    assert load(path).promise_ == stated


def test_an_early_file_without_the_lowest_score_is_read(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    evidence = saved(path)["evidence"]
    threshold = load(path).threshold_
    evidence = {k: v for k, v in evidence.items() if k not in ("lowest", "highest")}
    saved(path, evidence=evidence)
    assert load(path).threshold_ == threshold


def test_keys_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    saved(path, note={"of": "a later version"}, columns={"weight": "w"})
    assert load(path).columns_ == {"weight": "w"}
