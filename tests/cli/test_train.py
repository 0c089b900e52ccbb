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
from PIL import Image

from metapac import artefact
from metapac.fewshot import MAML, MLP, Conv4, ProtoNet, load_pools
from metapac.fewshot.datasets import pools as dataset_pools
from metapac.fewshot.datasets.cifar10c import prepare
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.datasets.pools import RUN
from metapac.fewshot.learners.accuracy import accuracy
from metapac.fewshot.pools import ClassPool
from metapac.fewshot.tensors import data_checksum, read_tensors
from metapac.fewshot.training.checkpoints import CHECKPOINT, FILE, load_weights, weights_checksum
from metapac.fewshot.training.episodes import fingerprint
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
    return artefact.read(folder / "run.json", RUN)


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
        r"accuracy ([\d.]+)% \(([\d.]+)% to ([\d.]+)%\) on 20 tasks drawn from 8 classes not used "
        "in training",
        output,
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
    reached = accuracy(learner, ClassPool(x[test], y[test]), tasks=20)
    assert reached.value == record["accuracy"]
    assert [reached.low, reached.high] == record["accuracy_interval"]
    figures = [record["accuracy"], *record["accuracy_interval"]]
    assert [*map(float, printed.groups())] == pytest.approx([100 * x for x in figures], abs=0.051)
    assert record["weights_checksum"] == weights_checksum(learner)
    assert record["data_checksum"] == data_checksum(x, y)


def test_the_pools_of_a_run_share_no_class(tmp_path: Path) -> None:
    run(table(tmp_path), "-o", tmp_path / "run", *SHORT)
    pools = read_run(tmp_path / "run")["pools"]
    assert {name: len(names) for name, names in pools.items()} == {
        "train": 5,
        "validation": 5,
        "calibration": 5,
        "test": 5,
    }
    assert len(set().union(*pools.values())) == 20


def test_a_run_gives_back_the_pools_that_it_was_trained_on(tmp_path: Path) -> None:
    data = table(tmp_path)
    sizes = ["--pools", "8,2,4,6", "--ways", "2", "--rng", "3"]
    output = run(data, "-o", tmp_path / "run", *SHORT, *sizes)
    assert f"next: metapac score {tmp_path / 'run'} --queries 7 -o calibration.parquet" in output
    record = read_run(tmp_path / "run")
    assert [len(names) for names in record["pools"].values()] == [8, 2, 4, 6]
    pools = load_pools(tmp_path / "run").pools
    assert {name: pool.names for name, pool in vars(pools).items()} == record["pools"]
    checkpoint, _ = read_tensors(tmp_path / "run" / FILE, CHECKPOINT)
    assert fingerprint(pools.train) == checkpoint["config"]["train_pool"]
    assert fingerprint(pools.validation) == checkpoint["config"]["validation_pool"]


def test_other_data_under_the_same_name_are_named_as_such(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(256, size=(240, 16, 16), dtype="u1")
    data, folder = table(tmp_path, x=pictures), tmp_path / "run"
    run(data, "-o", folder, *SHORT)
    table(tmp_path, x=pictures // 2)  # other pixels, hence another mean in the backbone
    message = f"the data changed: {data} is not what {folder} was trained on"
    assert message in run(data, "-o", folder, *SHORT, "--epochs", "3", code=2)
    (folder / "run.json").unlink()  # as if it had been interrupted
    message = f"the data changed: the training examples of {data} are not those that {folder} was"
    assert message in run(data, "-o", folder, *SHORT, code=2)
    table(tmp_path, x=pictures)
    message = "was made with --rng 0, and this call has --rng 1. A run can only be resumed with"
    assert message in run(data, "-o", folder, *SHORT, "--rng", "1", code=2)
    run(data, "-o", folder, *SHORT)


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


def test_a_folder_of_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in range(8):
        (tmp_path / "birds" / f"bird {name}").mkdir(parents=True)
        for i in range(10):
            pixels = np.clip(30 * name + rng.normal(0, 20, (20, 24, 3)), 0, 255).astype("u1")
            Image.fromarray(pixels).save(tmp_path / "birds" / f"bird {name}" / f"{i}.png")
    images, folder = tmp_path / "birds", tmp_path / "run"
    options = [*SHORT, "--ways", "2", "--image-size", "16"]
    assert "next: metapac score" in run(images, "-o", folder, *options)
    record = read_run(folder)
    assert record["options"]["image_size"] == record["architecture"]["backbone"]["size"] == 16
    assert set().union(*record["pools"].values()) == {f"bird {i}" for i in range(8)}
    pools = load_pools(folder).pools
    assert {name: pool.names for name, pool in vars(pools).items()} == record["pools"]
    refusal = run(images, "-o", folder, *options, "--image-size", "20", code=2)
    assert "was made with --image-size 16, and this call has --image-size 20." in refusal
    refusal = run("glyphs", "-o", tmp_path / "other", "--image-size", "20", code=2)
    assert "--image-size is for a folder of images, got glyphs. Leave it out." in refusal


@pytest.mark.parametrize("pool", ["train", "validation", "calibration", "test"])
def test_a_class_that_is_too_small_is_in_no_pool(tmp_path: Path, pool: str) -> None:
    sizes = {"train": 5, "validation": 5, "calibration": 5, "test": 5}
    with np.load(table(tmp_path)) as stored:
        x, y = stored["x"], stored["y"]
    whole = load_pools(table(tmp_path), sizes=sizes).pools
    rare = getattr(whole, pool).names[0]
    keep = (y != rare) | (np.arange(len(y)) % 12 == 0)
    x, y = np.concatenate([x[keep], x[:10]]), np.concatenate([y[keep], np.full(10, 20)])
    np.savez(tmp_path / "table.npz", x=x, y=y)  # 20 large classes, and one example of another
    data, folder = tmp_path / "table.npz", tmp_path / "run"
    output = run(data, "-o", folder, *SHORT)
    assert (
        "warning: left out 1 class with fewer than 10 examples, the 5 shots + 5 queries of a "
        f"training task: {rare} with 1."
    ) in output
    record = read_run(folder)
    assert record["left_out"] == [rare]
    assert {len(names) for names in record["pools"].values()} == {5}
    assert rare not in set().union(*record["pools"].values())
    pools = load_pools(folder).pools
    assert {name: pool.names for name, pool in vars(pools).items()} == record["pools"]
    # The command that is printed next works: 10 to 12 examples are too few for 15 queries.
    command = re.search(rf"next: metapac (score {folder} --queries (\d+)) -o", output)
    assert command is not None, output
    assert int(command[2]) in (5, 7)
    result = metapac(*command[1].split(), "--tasks", 3, "-o", tmp_path / "scores.parquet")
    assert result.exit_code == 0, result.output


def test_another_number_of_shots_is_named_and_not_taken_for_other_data(tmp_path: Path) -> None:
    with np.load(table(tmp_path)) as stored:
        x, y = stored["x"], stored["y"]
    keep = np.r_[9:240]  # class 0 has three examples, and is only in tasks of few
    np.savez(tmp_path / "table.npz", x=x[keep], y=y[keep])
    options = [*SHORT, "--ways", "4", "--shots", "1", "--queries"]
    run(tmp_path / "table.npz", "-o", tmp_path / "run", *options, "2")
    message = "was made with --queries 2, and this call has --queries 3."
    assert message in run(tmp_path / "table.npz", "-o", tmp_path / "run", *options, "3", code=2)


def test_groups_are_tasks(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(240) < 0.3).astype(int)
    groups = np.repeat([f"site {i}" for i in range(20)], 12)
    data = table(tmp_path, y=y, groups=groups)
    output = run(data, "-o", tmp_path / "run", *SHORT, "--class-weights", "1,10")
    assert "on 20 tasks drawn from 4 groups not used in training" in output
    pools = read_run(tmp_path / "run")["pools"]
    assert all(name.startswith("site ") for names in pools.values() for name in names)
    checkpoint, _ = read_tensors(tmp_path / "run" / FILE, CHECKPOINT)
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
        ((data, "--ways", 9), r"has 20 classes; training, validation, .* need 9 each, 36 in"),
        ((data, "--learner", "knn"), r"--learner must be 'protonet' or 'maml', got 'knn'"),
        ((data, "--backbone", "vgg"), r"--backbone must be 'conv4' or .*, got 'vgg'"),
        ((data, "--backbone", "conv4"), r"conv4 takes images, x of 3 or 4 dimensions, got shape"),
        (
            (data, "--class-weights", "a"),
            r"--class-weights must be numbers separated by commas, .*'a'",
        ),
        ((data, "--pools", "10,5,5"), r"--pools must be four whole numbers, .* Got '10,5,5'"),
        ((data, "--pools", "15,5,0,0"), r"only calibration may be 0\. Got '15,5,0,0'"),
        ((data, "--pools", "5,5,5,6"), r"20 classes|21"),
        ((data, "--pools", "11,3,3,3"), r"--pools gives validation only 3 classes, and a task has"),
        (("fewrel", "--pools", "1,1,1,1"), r"--pools is not for fewrel, whose publishers divided"),
        ((data, "--lr", "-1"), r"--lr must be finite and positive, got -1\.0"),
        ((data, "--shots", 9), r"has 0 classes with at least 14 examples; .* or lower --ways or"),
    ]:
        output = run(*map(str, arguments), "-o", folder, *SHORT, code=2)
        assert re.search(message, output), output
    assert not folder.exists()


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Imported again without torch, and put back.
    parts = ("metapac.fewshot.learners", "metapac.fewshot.training")
    for name in [name for name in sys.modules if name.startswith(parts)]:
        if name in parts:
            monkeypatch.setattr(name, sys.modules[name])
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    output = run(table(tmp_path), "-o", tmp_path / "run", code=2)
    assert "training needs torch. Install it with: pip install 'metapac[torch]'" in output


# With one thread each, losses differ only by the order of summation over processes.
@pytest.mark.usefixtures("one_thread")
def test_torchrun_shares_a_run_between_two_processes(tmp_path: Path) -> None:
    data = table(tmp_path, x=np.random.default_rng(0).integers(256, size=(240, 16, 16), dtype="u1"))
    command = [str(data), *SHORT, "--pools", "10,5,0,5", "--rng", "3", "-o"]
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


def test_the_strong_recipe_writes_a_run_like_any_other(tmp_path: Path) -> None:
    data, folder = table(tmp_path), tmp_path / "strong"
    options = ["--recipe", "strong", "--no-flip", "--epochs", "1", "--tuning-steps", "101"]
    output = run(data, *options, "--tasks", "4", "-o", folder, "--device", "cpu")
    assert "last of 3 epochs: 3, with" in output
    record = read_run(folder)
    kept = {name: record["options"][name] for name in ("recipe", "flip", "epochs", "tuning_steps")}
    assert kept == {"recipe": "strong", "flip": False, "epochs": 1, "tuning_steps": 101}
    assert record["architecture"]["backbone"]["class"] == "Sphere"
    assert load_pools(folder).pools.test.names == record["pools"]["test"]


def test_a_single_epoch_is_not_the_best_of_several(tmp_path: Path) -> None:
    output = run(table(tmp_path), *SHORT, "--epochs", "1", "-o", tmp_path / "run")
    assert re.search(r"after 1 epoch, with \d+\.\d% on validation tasks", output)
    assert "epochs" not in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--recipe", "best"], "--recipe must be 'paper' or 'strong', got 'best'"),
        (["--recipe", "strong", "--episodes", "8"], "--episodes is used by --recipe paper only"),
        (["--no-flip"], "--flip is used by --recipe strong only"),
        (["--recipe", "strong", "--learner", "maml"], "--recipe strong trains a protonet, got"),
    ],
)
def test_recipes_say_what_they_do_not_use(tmp_path: Path, options: list[str], message: str) -> None:
    assert message in run(table(tmp_path), "-o", tmp_path / "run", *options, code=2)


def test_the_strong_recipe_runs_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    output = run(table(tmp_path), "-o", tmp_path / "run", "--recipe", "strong", code=2)
    assert "--recipe strong runs in one process. Start it without torchrun." in output
