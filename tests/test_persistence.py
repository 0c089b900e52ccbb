"""Files: what was saved comes back, and nothing else is let in."""

from __future__ import annotations

import json
import math
import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metapac
from metapac import PS, BadArtefact, MetaPS, load, persistence


def calibrated(**changes: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    names = [f'site {i}, "quoted" \N{SNOWMAN} \n' for i in range(130)]
    promise = {"epsilon": 0.1, "alpha": 0.1, "delta": 1e-5} | changes
    return MetaPS(**promise).calibrate(rng.normal(size=130 * 60), np.repeat(names, 60))


def edit(path: Path, **changes: Any) -> None:
    """Change a file as one would who knows the format but not the checksum."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def forge(path: Path, **changes: Any) -> None:
    """Change a file and make its checksum right again."""
    document = json.loads(path.read_text()) | changes
    document.pop("checksum")
    document["checksum"] = persistence.checksum(document)
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
    promise = calibrated()
    promise.save(tmp_path / "promise.json")
    document = json.loads((tmp_path / "promise.json").read_text())
    assert document["format"] == "metapac promise"
    assert document["schema"] == 1
    assert document["metapac"] == metapac.__version__
    assert document["promise"] == promise.promise_
    assert len(document["evidence"]["tasks"]) == len(document["evidence"]["thresholds"]) == 130
    assert document["checksum"].startswith("sha256:")


def test_every_single_character_changed_is_noticed(tmp_path: Path) -> None:
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
        with pytest.raises(BadArtefact, match="is not complete JSON .* it may be truncated. Write"):
            load(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: edit(path, threshold=0.5), "was edited or damaged: its checksum does not"),
        (lambda path: edit(path, checksum=None), "was edited or damaged"),
        (
            lambda path: edit(path, schema=2, metapac="9.9"),
            r"has schema 2, written by metapac 9.9; this is metapac .*, which reads schemas up to "
            "1. Upgrade metapac.",
        ),
        (lambda path: edit(path, schema="1"), "has schema '1'"),
        (lambda path: path.write_text("[]"), "is not a metapac promise. Pass a file written by"),
        (lambda path: path.write_text('{"a": 1}'), "is not a metapac promise"),
        (lambda path: path.write_bytes(b"{\xff\xfe"), "is not complete JSON"),
        (lambda path: path.write_bytes(b""), "is not a metapac promise"),
        (lambda path: path.write_text("site,p_cat\n"), "is not a metapac promise"),
        (lambda path: forge(path, threshold=0.5), "states threshold 0.5, but its evidence gives"),
        (lambda path: forge(path, kind="Oracle"), "does not hold what a promise needs .KeyError"),
        (lambda path: forge(path, evidence={}), "does not hold what a promise needs .KeyError"),
        (lambda path: forge(path, parameters=[]), "does not hold what a promise needs .Attribute"),
    ],
)
def test_a_file_that_is_not_as_it_was_is_refused(tmp_path: Path, damage: Any, message: str) -> None:
    path = tmp_path / "promise.json"
    calibrated().save(path)
    damage(path)
    with pytest.raises(BadArtefact, match=message):
        load(path)


def test_a_missing_file_is_not_an_artefact(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.json")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="folder does not exist; create it .*nowhere"):
        calibrated().save(tmp_path / "nowhere" / "promise.json")


def test_names_that_json_cannot_give_back_are_refused(tmp_path: Path) -> None:
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.5], [("ohio", 2020)])
    with pytest.raises(ValueError, match=r"tasks must be strings or integers to be saved, got \('"):
        method.save(tmp_path / "promise.json")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "promise.json"
    calibrated().save(path)
    before = path.read_bytes()

    def cut_off() -> None:
        with persistence.replacing(path) as file:
            file.write("half a f")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        cut_off()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_of_any_kind_can_be_saved(tmp_path: Path) -> None:
    odd = MetaPS(epsilon=Fraction(1, 10), alpha=np.float32(0.25), delta=0.01)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    odd.calibrate(rng.normal(size=130 * 60), np.repeat(np.arange(130), 60))
    odd.save(tmp_path / "promise.json")
    assert load(tmp_path / "promise.json").threshold_ == odd.threshold_


def test_a_trivial_promise_comes_back_even_if_it_would_raise_today(tmp_path: Path) -> None:
    method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.1, on_infeasible="trivial")
    method.calibrate([0.5], ["a"]).set_params(on_infeasible="raise").save(tmp_path / "p.json")
    assert load(tmp_path / "p.json").threshold_ == -math.inf


def test_a_subclass_comes_back_as_its_parent(tmp_path: Path) -> None:
    class Mine(PS):
        pass

    Mine(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.5)).save(tmp_path / "promise.json")
    assert type(load(tmp_path / "promise.json")) is PS


def test_links_are_followed_and_pipes_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    calibrated().save(link)
    assert link.is_symlink()
    assert load(target).threshold_ == load(link).threshold_
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    calibrated().save(os.devnull)
    assert not Path(os.devnull).is_file()


def test_files_are_readable_by_others(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        calibrated().save(tmp_path / "promise.json")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "promise.json").stat().st_mode) == 0o644
