"""Tasks hold positions in shared data, which may be read when needed; batches are the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from metapac import InvalidInput, fewshot
from metapac.fewshot import ClassPool, DomainPool, GroupPool, LazyArray, ProtoNet, Task, class_reuse
from metapac.fewshot import tasks as tasks_module
from metapac.fewshot.tasks import ClassReuse, TaskBatch, as_examples, batches, query_sizes
from metapac.fewshot.training.episodes import EpisodeSampler

FIELDS = ("support", "support_y", "query", "query_y")
ROWS = np.arange(20.0).reshape(10, 2)
X = np.random.default_rng(0).normal(size=(60, 3, 2))
Y = np.arange(60) % 4


def task(**changes: Any) -> Task:
    values: dict[str, Any] = {"name": "ohio", "x": ROWS, "classes": 3}
    values |= {"support": [3, 1], "support_y": [0, 1], "query": [0, 9, 5], "query_y": [1, 1, 2]}
    return Task(**values | changes)


def test_support_and_query_are_rows_of_the_shared_data(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    for x in (ROWS, np.load(tmp_path / "x.npy", mmap_mode="r"), torch.from_numpy(ROWS)):
        ohio = task(x=x)
        assert ohio.x is x
        assert isinstance(ohio.query_x, torch.Tensor) == isinstance(x, torch.Tensor)
        assert ohio.support_x.tolist() == [[6, 7], [2, 3]]
        assert ohio.query_x.tolist() == [[0, 1], [18, 19], [10, 11]]
        assert {getattr(ohio, name).dtype for name in FIELDS} == {np.dtype(np.int64)}
    assert repr(task(query=np.array([0, 9, 5], np.uint8))) == "Task(name='ohio', classes=3)"


def test_from_arrays_keeps_four_arrays() -> None:
    kinds: list[Any] = [np.asarray, torch.as_tensor, np.ndarray.tolist]
    ys = np.array([1, 0]), np.array([2, 0, 0])
    for kind in kinds:
        made = Task.from_arrays(kind(ROWS[:2]), kind(ys[0]), kind(ROWS[5:8]), kind(ys[1]), name=7)
        assert np.asarray(made.support_x).tolist() == ROWS[:2].tolist()
        assert np.asarray(made.query_x).tolist() == ROWS[5:8].tolist()
        assert (made.name, made.classes) == (7, 3)
        assert (made.support_y.tolist(), made.query_y.tolist()) == ([1, 0], [2, 0, 0])
    unadapted = Task.from_arrays(ROWS[:0], [], ROWS, np.zeros(10, bool), name="new", classes=4)
    assert (len(unadapted.support_x), len(unadapted.query_x), unadapted.classes) == (0, 10, 4)


def test_bad_fields_are_named() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"query": [0, 1, 5]}, "support, query and .* share a position, got 1 twice"),
        ({"query": [0, 0, 5]}, "query .* once"),
        ({"query": [[0, 9, 5]]}, r"query .* shape \(1, 3\)"),
        ({"query_y": [0, 1, 3]}, "query_y .* below classes=3, got 3"),
        ({"support_y": [-1, 0]}, "support_y .* got -1"),
        ({"support_y": [0.5, 1]}, "support_y .* float64"),
        ({"support_y": [0]}, "support_y and support .* 1 and 2"),
        ({"support": [3, 10]}, "support .* 0 to 9, got 3 to 10"),
        ({"support": [-1, 3]}, "support .* 0 to 9, got -1 to 3"),
        ({"query": [0.5, 1, 2]}, "query .* float64"),
        ({"support": [True, False]}, "support .* bool"),
        ({"classes": 0}, "classes .* from 1"),
        ({"class_names": ["a", "b"]}, "class_names .* 3 labels, got 2"),
    ]
    for changes, message in bad:
        with pytest.raises(InvalidInput, match=message):
            task(**changes)
    two: Any = ROWS[:2]
    for arguments, message in [
        ((two, [0, 1], two, [0]), "query_y and query_x .* 1 and 2"),
        ((two, [0], two, [0, 1]), "support_y and support_x .* 1 and 2"),
        ((two, [1, 2], two, [1, 2]), "every label from 0 to 2, but 0 is absent"),
        ((3, [0], two, [0, 1]), "support_x .* got 3"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            Task.from_arrays(*arguments, name="new")
    with pytest.raises(InvalidInput, match="below classes=2, got 2"):
        Task.from_arrays(two, [0, 1], two, [0, 2], name="new", classes=2)
    assert Task.from_arrays(two, [1, 2], two, [1, 2], name="new", classes=3).classes == 3


def test_examples_are_arrays_of_any_kind_but_no_datasets() -> None:
    for x in (ROWS, torch.from_numpy(ROWS), sparse.csr_matrix(np.eye(3))):
        assert as_examples("x", x) is x
    assert isinstance(as_examples("x", pd.DataFrame(ROWS)), np.ndarray)
    for bad in ({"a": 1}, {1, 2}, 3, "text", b"bytes"):
        with pytest.raises(InvalidInput, match="x must hold one row for each example"):
            ClassPool(bad, [0])

    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4)))
    advice = {r"TensorDataset, .*\(data\)": loader.dataset, r"r, .*\(data\.dataset\)": loader}
    for words, data in (*advice.items(), (r"Pairs, .*\(data\)", Pairs())):
        with pytest.raises(InvalidInput, match=f"x must be an array, got a .*{words}"):
            ClassPool(data, [0, 1, 0, 1])


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
def test_lazy_rows_are_those_of_the_array_and_each_is_read_once(index: Any) -> None:
    reader = Reader()
    rows = reader.lazy()[index]
    index = np.array(index, dtype=int) if isinstance(index, list) else index
    np.testing.assert_array_equal(rows, X[index])
    assert rows.dtype == X.dtype
    read = [i for call in reader.calls for i in call]
    assert read == sorted(set(read)) == np.unique(np.arange(60)[index]).tolist()


def test_a_lazy_array_passes_for_an_array() -> None:
    reader = Reader()
    x = reader.lazy()
    assert (x.shape, x.dtype, x.ndim, len(x), x.nbytes) == (X.shape, X.dtype, 3, 60, X.nbytes)
    assert repr(x) == "<LazyArray of shape (60, 3, 2), float64, read when indexed>"
    part = x.select([9, 3, 30]).select([2, 0])
    assert not reader.calls
    np.testing.assert_array_equal(part[:], X[[30, 9]])
    assert reader.calls == [[9, 30]]
    np.testing.assert_array_equal(np.asarray(x), X)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.array(x, copy=False)
    bad: list[Any] = [60, -61, [0, 60], [0.5], "a", np.ones(5, bool)]
    for index in bad:
        with pytest.raises(IndexError):
            x[index]
    wrong = LazyArray(lambda rows: np.zeros((len(rows), 2)), shape=(9, 3), dtype=float)
    with pytest.raises(InvalidInput, match=r"read .* got \(2, 2\)"):
        wrong[[0, 1]]


def test_tasks_splits_and_training_read_only_the_rows_they_need() -> None:
    sites, few = np.repeat(np.arange(5), 12), {"shots": 1, "queries": 2, "rng": 0}
    makers: list[tuple[Any, dict[str, Any]]] = [
        (lambda x: ClassPool(x, Y), few | {"ways": 2}),
        (lambda x: GroupPool(x, Y, sites), few),
        (lambda x: DomainPool(x, Y, sites), few | {"ways": 2}),
    ]
    for make, options in makers:
        reader = Reader()
        lazy, whole = make(reader.lazy()).tasks(3, **options), make(X).tasks(3, **options)
        assert not reader.calls
        for one, other in zip(lazy, whole, strict=True):
            np.testing.assert_array_equal(one.support_x, other.support_x)
            np.testing.assert_array_equal(one.query_x, other.query_x)
            assert reader.calls == [sorted(one.support.tolist()), sorted(one.query.tolist())]
            reader.calls.clear()
    parts = {"train": 2, "validation": 0, "calibration": 1, "test": 1}
    pools = fewshot.split_classes(reader.lazy(), Y, **parts, rng=0)
    fewshot.split_domains(reader.lazy(), Y, Y, **parts, rng=0)
    assert not reader.calls
    np.testing.assert_array_equal(
        pools.train.x[:], fewshot.split_classes(X, Y, **parts, rng=0).train.x
    )
    reader.calls.clear()
    sampler = EpisodeSampler(ClassPool(reader.lazy(), Y), "cpu", ways=2, shots=1, queries=3)
    drawn = sampler.draw(5, seed=0)
    sampler.gather(drawn)
    needed = {*drawn.support.flatten().tolist(), *drawn.query.flatten().tolist()}
    assert {i for call in reader.calls for i in call} == needed
    reader.calls.clear()
    ProtoNet(torch.nn.Flatten()).embed(reader.lazy(), 16)
    assert max(len(call) for call in reader.calls) == 16


def test_rows_are_saved_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metapac.fewshot.tasks._BLOCK", 25)
    reader, seen = Reader(), list[tuple[str, int, int | None]]()
    saved = reader.lazy().save(tmp_path / "x.npy", progress=lambda *call: seen.append(call))
    assert isinstance(saved, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    assert [len(call) for call in reader.calls] == [25, 25, 10]
    assert seen[-1] == ("writing rows", 60, 60)


class Pairs:
    """A map-style dataset of pairs; it counts what is read, and may crop at random."""

    def __init__(self, *, crops: bool = False) -> None:
        self.crops, self.read = crops, 0

    def __len__(self) -> int:
        return 60

    def __getitem__(self, i: int) -> tuple[Any, int]:
        self.read += 1
        return X[i] + self.read * self.crops, i % 4


def test_a_dataset_becomes_an_array() -> None:
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(X))
    named = [{"image": row, "label": 0} for row in X]
    data: list[tuple[Any, Any]] = [(Pairs(), None), (tensors, None), ([*X], None), (named, "image")]
    for dataset, item in data:
        x = LazyArray.from_dataset(dataset, item=item)
        np.testing.assert_array_equal(x[[5, 2]], X[[5, 2]])
        assert (x.shape, x.dtype) == (X.shape, X.dtype)
    with pytest.warns(UserWarning, match=r"dataset\[0\] is not the same when it is read again"):
        LazyArray.from_dataset(Pairs(crops=True))
    for bad in (named, ["words", "more"]):
        with pytest.raises(InvalidInput, match=r"dataset\[0\] must be an array of numbers.* item"):
            LazyArray.from_dataset(bad)
    for other in (np.zeros((1, 2)), np.zeros(3), np.zeros(2, int)):
        odd = LazyArray.from_dataset([np.zeros(2), other])
        with pytest.raises(ValueError, match=r"shape"):
            odd[[1]]


POOL = ClassPool(np.arange(70.0)[:, None], np.repeat([f"class {i}" for i in range(7)], 10))
GROUPS = GroupPool(np.arange(60.0)[:, None], np.arange(60) % 2, np.arange(60) % 5)


def draw_batch() -> tuple[TaskBatch, list[Task]]:
    tasks = POOL.tasks(6, ways=3, shots=2, queries=4, rng=5)
    batch = tasks.draw()
    assert isinstance(batch, TaskBatch)
    return batch, list(tasks)


def assert_same(one: Task, other: Task) -> None:
    for name in ("name", "classes", "class_names", *FIELDS):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_batch_is_a_sequence_of_its_tasks() -> None:
    batch, tasks = draw_batch()
    for one, other in zip(batch, tasks, strict=True):
        assert_same(one, other)
        assert all(getattr(one, name).flags.writeable for name in FIELDS)  # torch warns otherwise
        assert Task(**vars(one)).x is POOL.x  # it is valid
    assert_same(batch[-1], tasks[-1])
    with pytest.raises(IndexError):
        batch[6]
    assert isinstance(batch[1:3], TaskBatch)
    assert [task.name for part in batch.split(4) for task in part] == [t.name for t in tasks]
    assert [len(part) for part in batch.split(4)] == [4, 2]
    assert query_sizes(batch).tolist() == query_sizes(tasks).tolist() == [12] * 6


def test_consecutive_tasks_of_one_shape_are_stacked_and_checked() -> None:
    few, many = (list(GROUPS.tasks(shots=2, queries=q, rng=0, name=str(q))) for q in (3, 4))
    tasks, checked = [*few[:2], *many[:1], *few[2:]], list[Any]()
    parts = list(batches(tasks, checked.append))
    assert [len(part) for part in parts] == [2, 1, 3]
    assert checked == tasks
    for one, other in zip([task for part in parts for task in part], tasks, strict=True):
        assert (one.name, one.classes) == (other.name, 2)
        for field in FIELDS:
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    batch, _ = draw_batch()
    for same, count in ((batch, 1), (batch[:0], 0)):  # the tasks of a batch are alike
        checked.clear()
        list(batches(same, checked.append))
        assert len(checked) == count
    for either in (batch, list(batch)):
        (part,) = batches(either, lambda task: None, query="support")
        np.testing.assert_array_equal(part.query, batch.support)
        np.testing.assert_array_equal(part.query_y, batch.support_y)
        assert part.names == batch.names


def of_classes(name: str, classes: str, domain: str | None = None) -> Task:
    part: dict[str, Any] = {"support": [], "support_y": [], "query": [0], "query_y": [0]}
    names = tuple(classes)
    return Task(name, ROWS, **part, classes=len(names), class_names=names, domain=domain)


@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=2, max_size=8))
def test_the_reuse_of_classes_is_that_of_a_loop_over_pairs(drawn: list[set[str]]) -> None:
    reuse = class_reuse([of_classes(str(i), "".join(c)) for i, c in enumerate(drawn)])
    distinct = set.union(*drawn)
    assert (reuse.tasks, reuse.classes) == (len(drawn), len(distinct))
    assert reuse.per_class == pytest.approx(sum(map(len, drawn)) / len(distinct))
    assert reuse.shared == pytest.approx(np.mean([len(a & b) for a, b in combinations(drawn, 2)]))


def test_the_reuse_of_classes_is_described() -> None:
    apart = [of_classes("1", "ab", "greek"), of_classes("2", "ab", "latin")]  # other classes
    assert class_reuse(apart) == ClassReuse(2, 4, 1.0, 0.0)
    assert class_reuse(apart[:1]) == ClassReuse(1, 2, 1.0, 0.0)
    reuse = class_reuse(POOL.tasks(500, ways=7, shots=1, queries=4, rng=0))
    some = class_reuse([of_classes("1", "abc"), of_classes("2", "cde")])
    endings = "no class is in two tasks.", "is 7 classes, not 500 tasks.", "share classes."
    for each, ending in zip((class_reuse(apart), reuse, some), endings, strict=True):
        assert each.describe().endswith(ending)
    with pytest.raises(InvalidInput, match="task 0 must name its classes"):
        class_reuse(GROUPS.tasks(shots=1, rng=0))
    with pytest.raises(InvalidInput, match="tasks is empty"):
        class_reuse([])


@given(
    entropy=st.integers(0, 2**200) | st.lists(st.integers(0, 2**40), min_size=1, max_size=6),
    key=st.lists(st.integers(0, 2**32 - 1), max_size=3),
)
def test_generators_of_many_items_are_those_of_one(entropy: Any, key: list[int]) -> None:
    seed = np.random.SeedSequence(entropy, spawn_key=key)
    states = [rng.bit_generator.state for rng in tasks_module.spawn_rngs(seed, 3)]
    assert states == [tasks_module.spawn_rng(seed, i).bit_generator.state for i in range(3)]
    assert states == [np.random.PCG64(child).state for child in seed.spawn(3)]
