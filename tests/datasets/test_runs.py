"""The folder of a run: what it records, and what is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

from metapac import BadArtefact, InvalidInput, artefact
from metapac.fewshot.datasets.pools import FILE, RUN, check_same_data, is_run, read_run

BODY = {
    "data": "glyphs",
    "data_checksum": "sha256:" + "ab" * 32,
    "weights_checksum": "sha256:" + "cd" * 32,
    "options": {"rng": 0},
    "architecture": {"class": "ProtoNet", "weights": 1},
    "accuracy": 0.5,
    "accuracy_interval": [0.4, 0.6],
    "pools": {"train": [1, 2]},
    "history": [],
}


def test_a_run_is_read(tmp_path: Path) -> None:
    artefact.write(tmp_path / FILE, BODY, RUN)
    record = read_run(tmp_path)
    assert {name: record[name] for name in BODY} == BODY
    old = {name: value for name, value in BODY.items() if name not in _NEW}
    artefact.write(tmp_path / FILE, old, RUN)
    assert read_run(tmp_path)["pools"] == {"train": [1, 2]}


_NEW = ("weights_checksum", "accuracy_interval")


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none is not a folder\. Pass the folder that 'metapac"):
        read_run(tmp_path / "none")
    with pytest.raises(InvalidInput, match=r"holds no run\.json, so it is not the folder of a run"):
        read_run(tmp_path)
    (tmp_path / "robin").mkdir()
    with pytest.raises(InvalidInput, match=r"If it holds images, .* run 'metapac train .*' first"):
        read_run(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    with pytest.raises(
        InvalidInput, match=r"holds a run that has not ended\. Start 'metapac train"
    ):
        read_run(tmp_path)
    artefact.write(tmp_path / FILE, BODY, RUN)
    text = (tmp_path / FILE).read_text().replace("glyphs", "other!")
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadArtefact, match=r"was edited or damaged.*Run 'metapac train' again"):
        read_run(tmp_path)


def test_the_checkpoint_has_the_name_that_training_gives_it() -> None:
    from metapac.fewshot.datasets import pools
    from metapac.fewshot.training import checkpoints

    assert pools._CHECKPOINT == checkpoints.FILE


def test_changed_data_are_named() -> None:
    check_same_data("run", "a.npz", "sha256:1", "sha256:1")
    message = (
        r"^the data changed: a\.npz is not what run was trained on \(checksum 111111111111 then, "
        r"222222222222 now\)\. Restore the data, or train on the new ones in another folder\.$"
    )
    with pytest.raises(InvalidInput, match=message):
        check_same_data("run", "a.npz", "sha256:" + "1" * 64, "sha256:" + "2" * 64)


def test_a_run_is_known_by_what_training_wrote(tmp_path: Path) -> None:
    assert not is_run(tmp_path / "none")
    (tmp_path / "robin").mkdir()
    assert not is_run(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    assert is_run(tmp_path)
