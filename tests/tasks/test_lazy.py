"""A lazy array reads the rows that are asked for and behaves as the array that it stands for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import MetaPS
from metapac.fewshot import (
    ClassPool,
    DomainPool,
    GroupPool,
    LazyArray,
    score_tasks,
    split_classes,
    split_domains,
)

X = np.random.default_rng(0).normal(size=(60, 3, 2))


class Reader:
    """Reads rows of X and remembers which."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, positions: Any) -> Any:
        self.calls.append(positions.tolist())
        return X[positions]

    def lazy(self) -> LazyArray:
        return LazyArray(self, shape=X.shape, dtype=X.dtype)


@given(
    index=st.one_of(
        st.integers(-60, 59),
        st.slices(60),
        st.lists(st.integers(-60, 59), max_size=9),
        st.lists(st.lists(st.integers(0, 59), min_size=2, max_size=2), min_size=1, max_size=4),
        st.lists(st.booleans(), min_size=60, max_size=60).map(np.array),
    )
)
def test_rows_are_those_of_the_array_and_each_is_read_once(index: Any) -> None:
    index = np.array(index, dtype=int) if isinstance(index, list) else index
    reader = Reader()
    rows = reader.lazy()[index]
    np.testing.assert_array_equal(rows, X[index])
    assert rows.dtype == X.dtype
    read = [i for call in reader.calls for i in call]
    assert read == sorted(set(read)) == np.unique(np.arange(60)[index]).tolist()


@pytest.mark.parametrize("index", [60, -61, [0, 60], [0.5], "a", np.ones(5, bool)])
def test_an_index_that_no_row_has_is_refused(index: Any) -> None:
    with pytest.raises(IndexError):
        Reader().lazy()[index]


def test_it_has_what_pools_and_learners_ask_of_an_array() -> None:
    x = Reader().lazy()
    assert (x.shape, x.dtype, x.ndim, len(x), x.nbytes) == (X.shape, X.dtype, 3, 60, X.nbytes)
    np.testing.assert_array_equal(np.asarray(x), X)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="reading a copy"):
        np.array(x, copy=False)
    assert repr(x) == "<LazyArray of shape (60, 3, 2), float64, read when indexed>"


def test_a_selection_reads_nothing_until_it_is_indexed() -> None:
    reader = Reader()
    part = reader.lazy().select([9, 3, 30]).select([2, 0])
    assert not reader.calls
    np.testing.assert_array_equal(part[:], X[[30, 9]])
    assert reader.calls == [[9, 30]]


def test_what_read_returns_is_checked() -> None:
    x = LazyArray(lambda rows: np.zeros((len(rows), 2)), shape=(9, 3), dtype=float)
    with pytest.raises(ValueError, match=r"rows of shape \(2, 3\) and type float64, got \(2, 2\)"):
        x[[0, 1]]


@pytest.mark.parametrize("kind", ["class", "group", "domain"])
def test_tasks_of_lazy_data_read_their_own_rows_alone(kind: str) -> None:
    reader = Reader()
    y, sites = np.arange(60) % 4, np.repeat(np.arange(5), 12)
    pools: dict[str, Any] = {
        "class": (lambda x: ClassPool(x, y), {"ways": 2, "queries": 2}),
        "group": (lambda x: GroupPool(x, y, sites), {"queries": 2}),
        "domain": (lambda x: DomainPool(x, y, sites), {"ways": 2, "queries": 2}),
    }
    make, arguments = pools[kind]
    lazy = make(reader.lazy()).tasks(3, **arguments, shots=1, rng=0)
    whole = make(X).tasks(3, **arguments, shots=1, rng=0)
    assert not reader.calls
    for task, other in zip(lazy, whole, strict=True):
        np.testing.assert_array_equal(task.support_x, other.support_x)
        np.testing.assert_array_equal(task.query_x, other.query_x)
        assert reader.calls == [sorted(task.support.tolist()), sorted(task.query.tolist())]
        reader.calls.clear()


def test_a_split_of_lazy_data_reads_nothing() -> None:
    reader, parts = Reader(), {"train": 2, "validation": 0, "calibration": 1, "test": 1}
    y = np.arange(60) % 4
    pools = split_classes(reader.lazy(), y, **parts, rng=0)
    split_domains(reader.lazy(), y, y, **parts, rng=0)
    assert not reader.calls
    np.testing.assert_array_equal(pools.train.x[:], split_classes(X, y, **parts, rng=0).train.x)


def test_rows_are_saved_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metapac.fewshot.drawing._BLOCK", 25)
    reader = Reader()
    seen: list[tuple[str, int, int | None]] = []
    saved = reader.lazy().save(tmp_path / "x.npy", progress=lambda *call: seen.append(call))
    assert isinstance(saved, np.memmap)
    np.testing.assert_array_equal(saved, X)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    assert [len(call) for call in reader.calls] == [25, 25, 10]
    assert seen[-1] == ("writing rows", 60, 60)


class Pairs:
    """A map-style dataset of pairs; it counts what is read."""

    def __init__(self, count: int = 60) -> None:
        self.count, self.read = count, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Any, int]:
        self.read += 1
        return X[i], i % 4


def test_a_dataset_becomes_an_array() -> None:
    torch = pytest.importorskip("torch")
    dicts = [{"image": row, "label": 0} for row in X]
    arrays = [
        LazyArray.from_dataset(Pairs()),
        LazyArray.from_dataset(torch.utils.data.TensorDataset(torch.from_numpy(X))),
        LazyArray.from_dataset([*X]),
        LazyArray.from_dataset(dicts, item="image"),
    ]
    for x in arrays:
        np.testing.assert_array_equal(x[[5, 2]], X[[5, 2]])
        assert x.shape == X.shape
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(x))[7], X[7])


def test_a_dataset_is_read_when_tasks_need_it_and_gives_the_same_scores() -> None:
    torch = pytest.importorskip("torch")
    from metapac.fewshot import ProtoNet

    data = Pairs()
    y = np.arange(60) % 4
    lazy, whole = ClassPool(LazyArray.from_dataset(data), y), ClassPool(X, y)
    assert data.read == 2
    learner = ProtoNet(torch.nn.Flatten())
    arguments: dict[str, Any] = {"ways": [2, 3], "shots": 1, "queries": 5, "rng": 0}
    scores, ids = score_tasks(learner, lazy.tasks(40, **arguments))
    assert data.read <= 2 + 2 * 60  # the bank reads each example once, however many tasks use it
    expected = score_tasks(learner, whole.tasks(40, **arguments))
    np.testing.assert_array_equal(scores, expected[0])
    promise = MetaPS(epsilon=0.4, alpha=0.3, delta=0.1).calibrate(scores, ids)
    assert np.isfinite(promise.threshold_)


def test_a_bank_embeds_a_batch_at_a_time() -> None:
    torch = pytest.importorskip("torch")
    from metapac.fewshot import ProtoNet

    reader = Reader()
    ProtoNet(torch.nn.Flatten()).embed(reader.lazy(), 16)
    assert max(len(call) for call in reader.calls) == 16


def test_training_reads_the_rows_of_its_episodes() -> None:
    pytest.importorskip("torch")
    from metapac.fewshot.training.episodes import EpisodeSampler

    reader, y = Reader(), np.arange(60) % 4
    sampler = EpisodeSampler(ClassPool(reader.lazy(), y), "cpu", ways=2, shots=1, queries=3)
    drawn = sampler.draw(5, seed=0)
    episodes = sampler.gather(drawn)
    same = EpisodeSampler(ClassPool(X, y), "cpu", ways=2, shots=1, queries=3)
    assert (episodes.query_x == same.gather(drawn).query_x).all()
    needed = {*drawn.support.flatten().tolist(), *drawn.query.flatten().tolist()}
    assert {i for call in reader.calls for i in call} == needed


class Crops(Pairs):
    """Gives another crop each time."""

    def __getitem__(self, i: int) -> tuple[Any, int]:
        return super().__getitem__(i)[0] + self.read, 0


def test_random_examples_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"dataset\[0\] is not the same when it is read again"):
        LazyArray.from_dataset(Crops())


def _endless() -> Iterator[int]:
    yield 0


class Unsized:
    def __getitem__(self, i: int) -> int:
        return i


@pytest.mark.parametrize(
    ("dataset", "item", "message"),
    [
        (_endless(), None, r"must give an example as dataset\[i\], and generator does not. Copy"),
        (Unsized(), None, "must have a length, and Unsized has none"),
        ([], None, "dataset is empty"),
        (
            [{"image": 1.0}],
            None,
            r"dict with the keys 'image'. Pass the one of the example as item",
        ),
        ([{"image": 1.0}], "text", r"item must name a part of dataset\[0\], got 'text'"),
        (["words", "more"], None, r"dataset\[0\] must be an array of numbers, .* got 'words'"),
    ],
)
def test_what_is_no_dataset_is_refused(dataset: Any, item: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LazyArray.from_dataset(dataset, item=item)


def test_a_loader_is_refused_for_its_dataset() -> None:
    data = pytest.importorskip("torch.utils.data")
    with pytest.raises(ValueError, match=r"and DataLoader does not. Pass its \.dataset\."):
        LazyArray.from_dataset(data.DataLoader([1.0]))


def test_examples_of_other_shapes_are_named() -> None:
    x = LazyArray.from_dataset([np.zeros(2), np.zeros(2), np.zeros(3)])
    with pytest.raises(ValueError, match=r"got \(2,\) and float64 at 0, \(3,\) and float64 at 2"):
        x[:]
