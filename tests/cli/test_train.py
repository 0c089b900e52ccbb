"""``metapac train``: glyphs, files, groups, runs that resume, two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metapac import _document
from metapac.cli.train import RUN
from metapac.datasets import pools as dataset_pools
from metapac.datasets.cifar10c.load import prepare
from metapac.learners import MAML, MLP, Conv4, ProtoNet
from metapac.learners.training.checkpoints import CHECKPOINT, FILE
from metapac.learners.training.train import accuracy
from metapac.learners.training.weights import load_weights
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import ClassPool
from tests.helpers.cifar_files import fabricated, write_pickles
from tests.helpers.commands import metapac

SHORT = ["--epochs", "2", "--episodes", "8", "--batch", "4", "--tasks", "20", "--device", "cpu"]

# With a free port that torchrun chooses, and an address that needs no name lookup.
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
TORCHRUN += ["--nproc-per-node", "2"]


def run(*arguments: str | Path, code: int = 0) -> str:
    result = metapac("train", *arguments)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def read_run(folder: Path) -> dict[str, Any]:
    return _document.read(folder / "run.json", RUN)


def table(folder: Path, **more: Any) -> Path:
    """20 classes of rows that a learner can tell apart."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 12)
    x = 3 * rng.normal(size=(20, 4))[y] + rng.normal(size=(240, 4))
    np.savez(folder / "table.npz", **{"x": x.astype(np.float32), "y": y, **more})
    return folder / "table.npz"


def test_the_weights_give_the_accuracy_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(glyphs, characters=40, per_character=12)
    monkeypatch.setattr(dataset_pools, "glyphs", few)
    output = run("glyphs", "-o", tmp_path / "run", *SHORT)
    printed = re.search(
        r"accuracy ([\d.]+)% on 20 tasks drawn from 8 classes not used in training", output
    )
    assert printed is not None, output
    assert "best of 2 epochs: " in output
    record = read_run(tmp_path / "run")
    backbone = record["architecture"]["backbone"]
    assert backbone["class"] == "Conv4"
    learner = ProtoNet(
        Conv4(1, 28, mean=backbone["mean"], std=backbone["std"], width=backbone["width"])
    )
    load_weights(learner, tmp_path / "run" / "model.safetensors")
    x, y, _ = few()
    pixels = x[np.isin(y, record["pools"]["train"])] / 255
    assert backbone["mean"][0] == pytest.approx(pixels.mean(), abs=0.02)
    test = np.isin(y, record["pools"]["test"])
    assert accuracy(learner, ClassPool(x[test], y[test]), tasks=20) == record["accuracy"]
    assert float(printed[1]) == pytest.approx(100 * record["accuracy"], abs=0.051)


def test_the_pools_of_a_run_share_no_class(tmp_path: Path) -> None:
    run(table(tmp_path), "-o", tmp_path / "run", *SHORT)
    pools = read_run(tmp_path / "run")["pools"]
    assert {name: len(names) for name, names in pools.items()} == {
        "train": 10,
        "validation": 5,
        "test": 5,
    }
    assert len(set().union(*pools.values())) == 20


def test_a_run_resumes_and_other_options_are_rejected(tmp_path: Path) -> None:
    data, folder = table(tmp_path), tmp_path / "run"
    first = run(data, "-o", folder, *SHORT)
    longer = [*SHORT, "--epochs", "4"]
    assert "best of 4 epochs" in run(data, "-o", folder, *longer)
    whole = tmp_path / "whole"
    run(data, "-o", whole, *longer)
    name = "model.safetensors"
    assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert "best of 2 epochs" in first
    refusal = run(data, "-o", folder, *longer, "--lr", "0.1", code=2)
    assert "was made with --lr 0.001, and this call has --lr 0.1." in refusal
    refusal = run(data, "-o", folder, *longer, "--learner", "maml", code=2)
    assert re.search(r"made with ProtoNet\(.* and this learner is MAML\(", refusal)


def test_groups_are_tasks(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(240) < 0.3).astype(int)
    groups = np.repeat([f"site {i}" for i in range(20)], 12)
    data = table(tmp_path, y=y, groups=groups)
    output = run(data, "-o", tmp_path / "run", *SHORT, "--class-weights", "1,10")
    assert "on 20 tasks drawn from 4 groups not used in training" in output
    pools = read_run(tmp_path / "run")["pools"]
    assert all(name.startswith("site ") for names in pools.values() for name in names)
    checkpoint, _ = _document.read_tensors(tmp_path / "run" / FILE, CHECKPOINT)
    assert checkpoint["config"]["class_weights"] == [1, 10]


def test_maml_on_rows(tmp_path: Path) -> None:
    run(table(tmp_path), "-o", tmp_path / "run", *SHORT, "--learner", "maml", "--ways", "3")
    learner = MAML(MLP(4, rng=1), 3)
    before = {name: tensor.clone() for name, tensor in learner.module.state_dict().items()}
    load_weights(learner, tmp_path / "run" / "model.safetensors")
    after = learner.module.state_dict()
    assert any(not before[name].equal(after[name]) for name in before)


def test_bad_files_and_options(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    data = table(tmp_path)
    broken = tmp_path / "broken.npz"
    broken.write_bytes(data.read_bytes()[:500])
    other = tmp_path / "other.npz"
    np.savez(other, images=np.zeros(3))
    for arguments, message in [
        ((tmp_path / "none.npz",), r"none\.npz: No such file or directory"),
        ((broken,), r"broken\.npz is not a complete \.npz file\. Pass glyphs, miniimagenet"),
        ((other,), r"other\.npz must hold arrays x and y, .* it has: images\. Write it with"),
        ((data, "--ways", 9), r"has 20 classes; training, validation and test need 9 each, 27 in"),
        ((data, "--learner", "knn"), r"--learner must be 'protonet' or 'maml', got 'knn'"),
        ((data, "--backbone", "vgg"), r"--backbone must be 'conv4' or .*, got 'vgg'"),
        ((data, "--backbone", "conv4"), r"conv4 takes images, x of 3 or 4 dimensions, got shape"),
        (
            (data, "--class-weights", "a"),
            r"--class-weights must be numbers separated by commas, .*'a'",
        ),
        ((data, "--lr", "-1"), r"--lr must be finite and positive, got -1\.0"),
        ((data, "--shots", 9), r"at least --shots \+ --queries = 14 examples"),
    ]:
        output = run(*map(str, arguments), "-o", folder, *SHORT, code=2)
        assert re.search(message, output), output
    assert not folder.exists()


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("metapac.learners")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    output = run(table(tmp_path), "-o", tmp_path / "run", code=2)
    assert "training needs torch. Install it with: pip install 'metapac[torch]'" in output


# With one thread each, losses differ only by the order of summation over processes.
@pytest.mark.usefixtures("one_thread")
def test_torchrun_shares_a_run_between_two_processes(tmp_path: Path) -> None:
    data = table(tmp_path, x=np.random.default_rng(0).integers(256, size=(240, 16, 16), dtype="u1"))
    command = [str(data), *SHORT, "--rng", "3", "-o"]
    run(*command, tmp_path / "one")
    launched = subprocess.run(
        [sys.executable, *TORCHRUN, "-m", "metapac", "train", *command, str(tmp_path / "two")],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            "OMP_NUM_THREADS": "1",
        },
    )
    assert launched.returncode == 0, launched.stderr
    assert launched.stdout.count("not used in training") == 1  # only the first process prints
    one, two = (read_run(tmp_path / name) for name in ("one", "two"))
    for alone, shared in zip(one["history"], two["history"], strict=True):
        assert shared["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    assert one["pools"] == two["pools"]
    assert torch.distributed.is_initialized() is False


def test_a_prepared_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METAPAC_DATA", str(tmp_path))
    assert "Run 'metapac data fetch cifar10c'" in run("cifar10c", "-o", tmp_path, code=2)
    prepare(write_pickles(tmp_path, fabricated(each=505)), home=tmp_path)
    options = ["--shots", "2", "--queries", "2", "--epochs", "1", "--batch", "2"]
    options += ["--episodes", "2", "--tasks", "4", "--device", "cpu"]
    text = run("cifar10c", *options, "-o", tmp_path / "run")
    assert "on 4 tasks drawn from 5050 examples not used in training" in text
    record = read_run(tmp_path / "run")
    assert (record["data"], record["options"]["ways"]) == ("cifar10c", 10)
    assert record["data_checksum"].startswith("sha256:")
    text = run("cifar10c", "--home", tmp_path / "elsewhere", "-o", tmp_path / "other", code=2)
    assert "set METAPAC_DATA to that folder" in text
