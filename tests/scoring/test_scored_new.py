"""New examples of one task: scored as deployment scores them, if the task has the right size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from metapac import InvalidInput
from metapac.fewshot import RidgeLearner, load_learner, score_examples
from metapac.fewshot.options import Drawing, Embeddings, NewExamples
from metapac.fewshot.scored_tables import ScoredTable, score_new_by_run, score_new_vectors
from tests.helpers.commands import metapac

RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(24), 12)
X = (1.5 * RNG.normal(size=(24, 4))[CODES] + RNG.normal(size=(288, 4))).astype(np.float32)
Y = np.array([f"class {i:02d}" for i in range(24)])[CODES]
SHORT = ["--epochs", "1", "--episodes", "4", "--batch", "4", "--tasks", "4", "--device", "cpu"]
# A task of three classes with two shots, in no particular order, and seven new examples.
SUPPORT = np.array([30, 1, 61, 25, 0, 60])
NEW = np.array([2, 3, 26, 27, 62, 63, 64])
SIZE = ["--ways", "3", "--shots", "2"]


def command(*words: object) -> str:
    result = metapac(*words)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    np.savez(folder / "rows.npz", x=X, y=Y)
    np.savez(folder / "labelled.npz", x=X[SUPPORT], y=Y[SUPPORT])
    np.save(folder / "ward 7.npy", X[NEW])
    command("train", folder / "rows.npz", "-o", folder / "run", *SHORT, *SIZE)
    (folder / "rows.npz").rename(folder / "away.npz")  # deployment does not need them
    return folder


def of_run(folder: Path, new: NewExamples, **tasks: Any) -> ScoredTable:
    return score_new_by_run(folder / "run", new, Drawing(**tasks), device="cpu")


def examples(folder: Path) -> NewExamples:
    return NewExamples(new=folder / "ward 7.npy", support=folder / "labelled.npz")


@pytest.mark.parametrize("score", ["probability", "margin"])
def test_scores_are_those_of_the_adapted_learner(folder: Path, score: str) -> None:
    table, provenance, _ = of_run(folder, examples(folder), score=score)
    names, codes = np.unique(Y[SUPPORT], return_inverse=True)
    learner = load_learner(folder / "run")
    expected = score_examples(learner, X[SUPPORT], codes, X[NEW], score=score)
    np.testing.assert_array_equal(np.array(table["scores"]), expected)
    assert table["classes"] == [names.tolist()] * 7
    assert table["task"].tolist() == ["ward 7"] * 7
    assert not {"label", "score"} & {*provenance.columns}
    assert provenance.score == score


def test_vectors_need_no_run(folder: Path) -> None:
    options = Embeddings(learner="ridge", penalty=2.0)
    tasks = Drawing(ways=range(2, 5), shots=[1, 2])
    labelled, new = folder / "labelled.npz", folder / "ward 7.npy"
    table, provenance, _ = score_new_vectors(labelled, new, tasks, options, model="clip")
    _, codes = np.unique(Y[SUPPORT], return_inverse=True)
    expected = score_examples(RidgeLearner(2.0), X[SUPPORT], codes, X[NEW])
    np.testing.assert_array_equal(np.array(table["scores"]), expected)
    size = "of 4 dimensions, 2-4 ways, 1,2 shots"
    assert provenance.model == f"clip, ridge (penalty 2.0, temperature 1.0) {size}"
    with pytest.raises(InvalidInput, match="groups does not go with new vectors: .*labelled.npz"):
        score_new_vectors(labelled, new, tasks, Embeddings(groups="g.npy"))


def paint(path: Path, colour: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (20, 24), colour).save(path)


def test_folders_of_images_are_read_as_in_training(folder: Path, tmp_path: Path) -> None:
    for i in range(8):
        for j in range(4):
            paint(tmp_path / "birds" / f"bird {i}" / f"{j}.png", 30 * i + j)
    size = ["--ways", "2", "--shots", "2", "--queries", "2", "--image-size", "16"]
    command("train", tmp_path / "birds", "-o", tmp_path / "run", *SHORT, *size)
    for name, colour in (("owl", 10), ("jay", 200)):
        paint(tmp_path / "labelled" / name / "1.png", colour)
        paint(tmp_path / "labelled" / name / "2.png", colour + 1)
    for name, colour in (("b.png", 12), ("a.png", 202), ("notes.png", 11)):
        paint(tmp_path / "ward.7" / name, colour)
    folders = NewExamples(new=tmp_path / "ward.7", support=tmp_path / "labelled")
    table, _, _ = of_run(tmp_path, folders)
    assert table["task"].tolist() == ["ward.7"] * 3
    assert table["example"].tolist() == ["a.png", "b.png", "notes.png"]
    assert table["classes"][0] == ["jay", "owl"]
    grey = np.array([200, 201, 10, 11, 202, 12, 11], np.uint8)  # labelled, then new
    x = np.broadcast_to(grey[:, None, None, None], (7, 16, 16, 3))
    np.savez(tmp_path / "labelled.npz", x=x[:4], y=["jay", "jay", "owl", "owl"])
    np.save(tmp_path / "ward 7.npy", x[4:])
    expected, _, _ = of_run(tmp_path, examples(tmp_path))
    np.testing.assert_array_equal(np.array(table["scores"]), np.array(expected["scores"]))
    with pytest.raises(
        InvalidInput, match=r"labelled has no images in it\. Put the new images dir"
    ):
        of_run(tmp_path, NewExamples(new=tmp_path / "labelled", support=tmp_path / "labelled"))
    for other in (
        NewExamples(new=folders.new, support=folder / "labelled.npz"),
        NewExamples(new=folder / "ward 7.npy", support=folders.support),
    ):
        with pytest.raises(InvalidInput, match="is a folder, and the learner was not trained on a"):
            of_run(folder, other)


def test_a_new_group_has_the_labels_of_training(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=X, y=CODES % 3, groups=np.arange(288) % 12)
    command("train", tmp_path / "rows.npz", "-o", tmp_path / "run", *SHORT, "--shots", "6")
    np.savez(tmp_path / "labelled.npz", x=X[SUPPORT], y=[0, 1, 0, 1, 0, 1])  # label 2 is absent
    np.save(tmp_path / "ward 7.npy", X[NEW])
    table, provenance, _ = of_run(tmp_path, examples(tmp_path))
    assert table["classes"][0] == [0, 1, 2]
    assert {row[2] for row in table["scores"]} == {0.0}
    assert provenance.model.endswith(", 6 shots")
    np.savez(tmp_path / "labelled.npz", x=X[SUPPORT], y=[0, 1, 0, 1, 0, 3])
    message = r"labels of groups must be whole numbers from 0 to 2, as in training, got \[0, 1, 3\]"
    with pytest.raises(InvalidInput, match=message):
        of_run(tmp_path, examples(tmp_path))
    np.savez(tmp_path / "labelled.npz", x=X[:5], y=[0, 1, 0, 1, 0])
    with pytest.raises(InvalidInput, match="task alone, of 6 shots, got 5 examples. A guarant"):
        of_run(tmp_path, examples(tmp_path))


def test_a_task_of_another_size_is_refused(folder: Path) -> None:
    new = examples(folder)
    with pytest.raises(InvalidInput, match="task alone, of 4-5 ways, got 3 classes. A guar"):
        of_run(folder, new, ways=range(4, 6))
    message = "task alone, of 1,3 shots, got 2 examples of class 'class 00'. A guarantee holds"
    with pytest.raises(InvalidInput, match=message):
        of_run(folder, new, shots=[1, 3])


@pytest.mark.parametrize(
    "given", [{"pool": "test"}, {"tasks": 3}, {"queries": 4}, {"rng": 1}], ids=str
)
def test_nothing_is_drawn(folder: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(given))} does not apply to new examples"):
        of_run(folder, examples(folder), **given)


def test_bad_files_are_named(folder: Path, tmp_path: Path) -> None:
    new = examples(folder)
    for incomplete in (NewExamples(new=new.new), NewExamples(support=new.support)):
        with pytest.raises(InvalidInput, match="new and support belong together: a learner adapts"):
            of_run(folder, incomplete)
    np.savez(tmp_path / "x.npz", x=X)
    with pytest.raises(InvalidInput, match=r"x\.npz must hold arrays x and y; it has: x\."):
        of_run(folder, NewExamples(new=new.new, support=tmp_path / "x.npz"))
    np.save(tmp_path / "wide.npy", np.zeros((3, 5)))
    message = r"wide\.npy must hold examples like the labelled ones, of shape \(4,\), got \(5,\)"
    with pytest.raises(InvalidInput, match=message):
        of_run(folder, NewExamples(new=tmp_path / "wide.npy", support=new.support))
    np.save(tmp_path / "nan.npy", np.where(X[NEW] == X[2, 1], np.nan, X[NEW]))
    with pytest.raises(InvalidInput, match=r"nan\.npy has 1 example with NaN .* in row 0\)"):
        of_run(folder, NewExamples(new=tmp_path / "nan.npy", support=new.support))
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(InvalidInput, match=r"flat\.npy must hold examples of numbers, as an array"):
        of_run(folder, NewExamples(new=tmp_path / "flat.npy", support=new.support))
