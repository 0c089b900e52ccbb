"""FewRel from the published files to encoded sentences, pools and a calibrated predictor."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from metapac import MetaPS
from metapac.fewshot import ProtoNet, SentenceCNN, score_tasks
from metapac.fewshot.datasets.fewrel import (
    Sentence,
    _differences,
    _largest_first,
    encode,
    fewrel,
    missing,
    prepare,
)
from metapac.fewshot.training.loop import train
from tests.helpers.shared_data import needs_real_data, unpacked

FALSE_ALARM = 1e-6


def sentence(*tokens: str, head: int = 0, tail: int = 1) -> dict[str, Any]:
    return {"tokens": tokens, "h": ["x", "Q1", [[head]]], "t": ["y", "Q2", [[tail], [0]]]}


def publish(folder: Path, train: Any, val: Any, vectors: str, names: Any = None) -> Path:
    """Write a copy of FewRel in its published layout."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train_wiki.json").write_text(json.dumps(train))
    (folder / "val_wiki.json").write_text(json.dumps(val))
    (folder / "glove.6B.50d.txt").write_text(vectors, encoding="utf-8")
    if names is not None:
        (folder / "pid2name.json").write_text(json.dumps(names))
    return folder


SMALL: dict[str, Any] = {
    "train": {
        "P9": [sentence("The", "River", "\xa0", "Qqq", head=1, tail=3)],
        "P2": [sentence("of", "THE"), sentence("the", *["of"] * 128, "behind", tail=129)],
    },
    "val": {"P5": [sentence("river", "river", "Elbe", head=2)]},
    "vectors": "river 1 3\nthe 3 6\n\xa0 90 90\nbehind 7 7\nunused 8 8\n",
    "names": {"P9": ["mouth of", "where it ends"], "P5": ["crosses", ""]},
}


def publish_sizes(folder: Path, train: list[int], val: list[int]) -> Path:
    """Write relations P10, P11, ... of these sizes; the first word identifies the relation."""
    words = [f"w{i}" for i in range(10, 10 + len(train) + len(val))]
    made = [
        (f"P{word[1:]}", [sentence(word, "x", tail=i % 2) for i in range(size)])
        for word, size in zip(words, [*train, *val], strict=True)
    ]
    vectors = "".join(f"{word} {word[1:]} 1\n" for word in words)
    return publish(folder, dict(made[: len(train)]), dict(made[len(train) :]), vectors)


def test_a_small_copy_is_encoded_as_by_hand(tmp_path: Path) -> None:
    data = prepare(publish(tmp_path / "in", **SMALL), home=tmp_path)
    assert {name: str(array.dtype) for name, array in data.items()} == {
        "words": "float32",
        "x": "int32",
        "y": "int16",
        "split": "int8",
    }
    # Padding, the mean for missing words, then the file's order; "behind" is truncated.
    assert data["words"].tolist() == [[0, 0], [2, 4.5], [1, 3], [3, 6]]
    assert data["y"].tolist() == [0, 1, 1, 2]
    assert data["split"].tolist() == [0, 0, 0, 1]
    assert data["x"].shape == (4, 128, 3)
    assert data["x"][0, :4].tolist() == [[3, -1, -3], [2, 0, -2], [1, 1, -1], [1, 2, 0]]
    assert data["x"][1, :2].tolist() == [[1, 0, -1], [3, 1, 0]]
    assert data["x"][3, :3].tolist() == [[2, -2, -1], [2, -1, 0], [1, 0, 1]]
    assert [np.count_nonzero(row[:, 0]) for row in data["x"]] == [4, 2, 128, 3]
    assert not data["x"][0, 4:].any()
    assert data["x"][2, :, 2].tolist() == [*range(-128, 0)]  # the entity is beyond the last token


def test_the_facts_describe_the_data(tmp_path: Path) -> None:
    facts = prepare(publish(tmp_path / "in", **SMALL), home=tmp_path).facts
    assert facts == {
        "classes": {"train": ["P9", "P2"], "val": ["P5"]},
        "counts": {"train": [1, 2], "val": [1]},
        "names": {"P9": "mouth of", "P2": "P2", "P5": "crosses"},
        "splits": {
            "train": {
                "classes": 2,
                "examples": 3,
                "smallest": 1,
                "largest": 2,
                "tokens": 134,
                "covered": 4 / 134,
                "cut": 1,
            },
            "val": {
                "classes": 1,
                "examples": 1,
                "smallest": 1,
                "largest": 1,
                "tokens": 3,
                "covered": 2 / 3,
                "cut": 0,
            },
        },
        "words": 2,
        "vectors": {"file": "glove.6B.50d.txt", "width": 2},
        "notes": [
            "train was published as 64 relations of 700 sentences",
            "val was published as 16 relations of 700 sentences",
            "glove.6B.50d.txt covers only 3% of the tokens of train_wiki.json; the others share "
            "one vector: use vectors of lower-cased English words, such as glove.6B.50d.txt",
        ],
    }


def test_half_of_the_tokens_covered_needs_no_note(tmp_path: Path) -> None:
    half, third = {"P1": [sentence("the", "of")]}, {"P2": [sentence("the", "of", "of")]}
    publish(tmp_path / "in", half, third, "the 1 2\n")
    notes = prepare(tmp_path / "in", home=tmp_path).facts["notes"]
    assert [note for note in notes if "covers only" in note] == [notes[-1]]
    assert "33% of the tokens of val_wiki.json" in notes[-1]


def test_only_differences_from_the_published_data_are_noted() -> None:
    whole = {"train": {i: [0] * 700 for i in range(64)}, "val": {i: [0] * 700 for i in range(16)}}
    assert _differences(whole) == []
    whole["val"][3] = [0] * 699
    assert _differences(whole) == ["val was published as 16 relations of 700 sentences"]


words = st.sampled_from(["a", "b", "c", " "])
sentences = st.integers(1, 140).flatmap(
    lambda n: st.builds(
        Sentence,
        st.lists(words, min_size=n, max_size=n),
        st.integers(0, n - 1),
        st.integers(0, n - 1),
    )
)


@given(some=st.lists(sentences, max_size=3))
def test_encoding_agrees_with_a_loop_over_tokens(some: list[Sentence]) -> None:
    rows = {"a": 2, "b": 3}
    x = encode(some, rows)
    assert (x.shape, str(x.dtype)) == ((len(some), 128, 3), "int32")
    for encoded, sentence in zip(x.tolist(), some, strict=True):
        expected = [[0, 0, 0]] * 128
        entities = [at if at < 128 else 128 for at in (sentence.head, sentence.tail)]
        for j, word in enumerate(sentence.words[:128]):
            row = {"a": 2, "b": 3, "c": 1, " ": 1}[word]
            expected[j] = [row, j - entities[0], j - entities[1]]
        assert encoded == expected


@pytest.mark.parametrize("at", [0, 126, 127, 128, 129, 139])
def test_an_entity_beyond_the_last_token_gets_position_128(at: int) -> None:
    from_head = encode([Sentence(["a"] * 140, at, 5)], {})[0, :, 1]
    from_tail = encode([Sentence(["a"] * 140, 5, at)], {})[0, :, 2]
    expected = [j - at for j in range(128)] if at < 128 else [*range(-128, 0)]
    assert from_head.tolist() == from_tail.tolist() == expected


def test_sentences_of_more_than_128_tokens_are_truncated(tmp_path: Path) -> None:
    lengths = {"P1": [sentence(*["the"] * n) for n in (127, 128, 129)]}
    publish(tmp_path / "in", lengths, {"P2": [sentence("the", "of")]}, "the 1 2\n")
    facts = prepare(tmp_path / "in", home=tmp_path).facts["splits"]["train"]
    assert (facts["cut"], facts["tokens"]) == (1, 127 + 128 + 128)


def test_pools_are_whole_relations_and_the_largest_are_not_for_training(tmp_path: Path) -> None:
    publish_sizes(tmp_path / "in", train=[3, 7, 4, 9, 5], val=[6, 2])
    prepare(tmp_path, home=tmp_path / "home")
    pools, vectors = fewrel(calibration=2, validation=1, home=tmp_path / "home")
    expected = {
        "calibration": ["P11", "P13"],
        "validation": ["P14"],
        "train": ["P10", "P12"],
        "test": ["P15", "P16"],
    }
    sizes = dict(zip([f"P{i}" for i in range(10, 17)], [3, 7, 4, 9, 5, 6, 2], strict=True))
    for name, relations in expected.items():
        pool = getattr(pools, name)
        assert (pool.name, pool.names) == (name, relations)
        assert [len(rows) for rows in pool.positions] == [sizes[relation] for relation in relations]
        first = vectors[pool.x[:, 0, 0], 0].astype(int)  # its vector identifies the relation
        assert [f"P{number}" for number in first] == pool.y.tolist()
        assert pool.x.shape == (len(pool.y), 128, 3)


def test_a_size_of_0_gives_no_pool_and_training_may_be_empty(tmp_path: Path) -> None:
    prepare(publish_sizes(tmp_path / "in", train=[2, 2, 2], val=[2]), home=tmp_path)
    pools, _ = fewrel(calibration=0, home=tmp_path)
    assert pools.calibration is None
    assert pools.validation is None
    assert len(pools.train.names) == 3
    pools, _ = fewrel(calibration=2, validation=1, home=tmp_path)
    assert pools.train is None
    message = r"calibration \+ validation must be at most 3, the relations of train_wiki\.json, "
    with pytest.raises(ValueError, match=message + r"got 2 \+ 2\."):
        fewrel(calibration=2, validation=2, home=tmp_path)
    with pytest.raises(ValueError, match=r"at most 3, .* got 16 \+ 0"):
        fewrel(home=tmp_path)
    for name in ("calibration", "validation"):
        with pytest.raises(ValueError, match=rf"{name} must .*whole number.* from 0"):
            fewrel(**{name: -1}, home=tmp_path)


def test_contiguous_rows_are_not_copied_from_the_mapped_file(tmp_path: Path) -> None:
    prepare(publish_sizes(tmp_path / "in", train=[2, 5, 2], val=[2, 2]), home=tmp_path)
    pools, vectors = fewrel(calibration=1, home=tmp_path)
    # Mapped arrays are read-only, copies are not.
    assert not pools.test.x.flags.writeable
    assert not pools.calibration.x.flags.writeable
    assert pools.train.x.flags.writeable
    assert vectors.flags.writeable
    assert (str(vectors.dtype), vectors.shape) == ("float32", (7, 2))


def test_the_choice_is_reproducible_and_validation_does_not_move_calibration(
    tmp_path: Path,
) -> None:
    prepare(publish_sizes(tmp_path / "in", train=[2] * 30, val=[2]), home=tmp_path)

    def chosen(validation: int = 0, rng: Any = 0) -> list[str]:
        pools, _ = fewrel(calibration=8, validation=validation, rng=rng, home=tmp_path)
        return pools.calibration.names

    assert chosen() == chosen() == chosen(validation=9)
    assert chosen() != chosen(rng=1)
    generator = np.random.default_rng(0)
    assert chosen(rng=generator) == chosen() != chosen(rng=generator)


def assert_uniform(counts: Counter[Any], cells: int) -> None:
    observed = [*counts.values(), *[0] * (cells - len(counts))]
    assert stats.chisquare(observed).pvalue > FALSE_ALARM


def test_ties_are_broken_uniformly() -> None:
    counts = [5, 9, 5, 5, 1, 5]
    orders = [_largest_first(counts, rng).tolist() for rng in range(1200)]
    assert all((order[0], order[5]) == (1, 4) for order in orders)
    pairs = Counter(tuple(sorted(order[1:3])) for order in orders)
    assert set(pairs) == set(combinations([0, 2, 3, 5], 2))
    assert_uniform(pairs, 6)
    with pytest.raises(
        AssertionError
    ):  # the check notices a choice that always begins the same way
        assert_uniform(Counter(pair for pair in pairs.elements() if pair[0] == 0), 6)


def test_files_may_be_in_a_subfolder_and_vectors_elsewhere(tmp_path: Path) -> None:
    publish(tmp_path / "in" / "data", **SMALL)
    seen: list[tuple[str, int, int | None]] = []
    data = prepare(tmp_path / "in", home=tmp_path, progress=lambda *call: seen.append(call))
    size = (tmp_path / "in" / "data" / "glove.6B.50d.txt").stat().st_size
    assert seen == [("reading word vectors", size, size)]
    vectors = tmp_path / "other.vec"
    vectors.write_text("elbe 5 6 7\n")
    other = prepare(tmp_path / "in", glove=vectors, home=tmp_path)
    assert other.facts["vectors"] == {"file": "other.vec", "width": 3}
    assert other["words"].tolist() == [[0, 0, 0], [5, 6, 7], [5, 6, 7]]
    assert data.checksum != other.checksum


def test_a_changed_source_is_prepared_again(tmp_path: Path) -> None:
    publish(tmp_path / "in", **SMALL)
    first = prepare(tmp_path / "in", home=tmp_path)
    assert prepare(tmp_path / "in", home=tmp_path).folder == first.folder
    publish(tmp_path / "in", **SMALL | {"names": {"P9": ["another name"]}})
    assert prepare(tmp_path / "in", home=tmp_path).facts["names"]["P9"] == "another name"
    (tmp_path / "in" / "pid2name.json").unlink()
    assert prepare(tmp_path / "in", home=tmp_path).facts["names"]["P9"] == "P9"


def test_missing_files_are_named_with_their_source(tmp_path: Path) -> None:
    publish(tmp_path / "in", **SMALL)
    assert missing(tmp_path / "in") == []
    (tmp_path / "in" / "glove.6B.50d.txt").unlink()
    (what,) = missing(tmp_path / "in")
    assert what.startswith("a GloVe text file such as glove.6B.50d.txt is missing: run 'metapac")
    with pytest.raises(FileNotFoundError, match=r"a GloVe text file such as .* missing.*/in'$"):
        prepare(tmp_path / "in", home=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"train_wiki.json is .* val_wiki.json is missing"):
        prepare(tmp_path / "elsewhere", home=tmp_path)
    message = r"glove must be a GloVe text file, such as glove\.6B\.50d\.txt\. .*none\.txt'$"
    with pytest.raises(FileNotFoundError, match=message):
        prepare(tmp_path / "in", glove=tmp_path / "none.txt", home=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"fewrel is not prepared under"):
        fewrel(home=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"val": SMALL["val"] | {"P2": SMALL["val"]["P5"]}},
            r"train_wiki\.json and val_wiki\.json must not share a relation, got 'P2' in both: "
            r"relations to test on must be new\. Take both files from one source\.",
        ),
        (
            {"vectors": "der 1 2\nFluss 3 4\n"},
            r"glove\.6B\.50d\.txt has none of the 6 words of FewRel\. Use vectors of lower-cased",
        ),
        ({"vectors": "the 1 2\nriver 3\n"}, r"glove\.6B\.50d\.txt, line 2 must be a word and 2"),
        ({"train": {"P9": [{}]}}, r"train_wiki\.json, relation 'P9', sentence 1 of 1 must be"),
        ({"names": {"P9": 1}}, r"pid2name\.json must hold \{relation: \[name, description\]\}"),
    ],
)
def test_a_damaged_copy_leaves_nothing_behind(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    publish(tmp_path / "in", **SMALL | changes)
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / "in", home=tmp_path / "home")
    assert not list((tmp_path / "home").rglob("*.*"))


def publish_separable(folder: Path, rng: np.random.Generator) -> Path:
    """Write 30 relations of 40 sentences: two of ten words identify the relation."""
    relations = [f"P{i}" for i in range(30)]
    vectors = [f"noise{i} " + " ".join(f"{v:.3f}" for v in rng.normal(size=8)) for i in range(50)]
    made: dict[str, Any] = {}
    for name in relations:
        centre = 2 * rng.normal(size=8)
        for i in range(4):
            near = " ".join(f"{v:.3f}" for v in centre + 0.1 * rng.normal(size=8))
            vectors.append(f"{name.lower()}.{i} {near}")
        made[name] = [_separable_sentence(name, rng) for _ in range(40)]
    held = {name: made.pop(name) for name in relations[-8:]}
    return publish(folder, made, held, "\n".join(vectors) + "\n")


def _separable_sentence(name: str, rng: np.random.Generator) -> dict[str, Any]:
    tokens = [f"Noise{i}" for i in rng.integers(60, size=10)]  # ten of them have no vector
    head, tail = rng.choice(10, 2, replace=False).tolist()
    tokens[head], tokens[tail] = (f"{name}.{i}" for i in rng.integers(4, size=2))
    return sentence(*tokens, head=head, tail=tail)


@pytest.mark.usefixtures("one_thread")
def test_end_to_end_from_files_to_prediction_sets(tmp_path: Path) -> None:
    prepare(publish_separable(tmp_path / "in", np.random.default_rng(0)), home=tmp_path)
    pools, vectors = fewrel(calibration=8, validation=5, home=tmp_path)
    learner = ProtoNet(SentenceCNN(vectors, maps=32, rng=0))
    train(
        learner,
        pools.train,
        pools.validation,
        epochs=2,
        episodes_per_epoch=16,
        lr=1e-2,
        validation_tasks=8,
        device="cpu",
    )
    drawn: dict[str, Any] = {"ways": 5, "shots": 5, "queries": 20}
    scores, tasks = score_tasks(learner, pools.calibration.tasks(60, **drawn, rng=1))
    predictor = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1).calibrate(scores, tasks)
    # Exact: a task whose threshold is no lower has at most epsilon of its scores below this.
    errors = (scores.reshape(60, 100) < predictor.threshold_).mean(1)
    assert np.mean(errors <= 0.2) >= 0.8
    hits, sizes = [], []
    for task in pools.test.tasks(20, **drawn, rng=2):
        adapted = learner.adapt(task.support_x, task.support_y, classes=task.classes)
        probabilities = adapted.predict_proba(task.query_x)  # (100, 5)
        hits.append(probabilities.argmax(1) == task.query_y)
        sizes.append(predictor.predict_set(probabilities).sum(1).mean())
    assert_better_than_chance(np.concatenate(hits))
    assert 0 < np.mean(sizes) < 5
    with pytest.raises(AssertionError):
        assert_better_than_chance(np.random.default_rng(0).integers(5, size=2000) == 0)


def assert_better_than_chance(hits: NDArray[np.bool_]) -> None:
    chance = stats.binomtest(int(hits.sum()), len(hits), 1 / 5, alternative="greater")
    assert chance.pvalue < FALSE_ALARM


@needs_real_data
def test_real_data(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="unpacking the real data needs Pillow")
    unpacked("fewrel", tmp_path)
    assert missing(tmp_path) == []
    facts = prepare(tmp_path, home=tmp_path / "home").facts
    known, new = facts["splits"]["train"], facts["splits"]["val"]
    assert (known["classes"], known["examples"]) == (64, 33_572)
    assert (known["smallest"], known["largest"]) == (264, 700)
    assert (new["classes"], new["examples"], new["smallest"]) == (16, 11_200, 700)
    covered = sum(part["covered"] * part["tokens"] for part in (known, new))
    assert round(covered / (known["tokens"] + new["tokens"]), 3) == 0.908
    assert (facts["words"], facts["vectors"]["width"]) == (59_584, 100)
    assert facts["notes"] == ["train was published as 64 relations of 700 sentences"]
    assert facts["names"]["P931"] == "place served by transport hub"
    pools, vectors = fewrel(home=tmp_path / "home")
    assert vectors.shape == (59_586, 100)
    assert [len(pool.names) for pool in (pools.train, pools.calibration, pools.test)] == [
        48,
        16,
        16,
    ]
    for pool in (pools.calibration, pools.test):
        task = pool.tasks(500, ways=5, shots=5, queries=500, rng=0)[499]
        assert np.asarray(task.query_x).shape == (2500, 128, 3)
        assert pool.x[:, :, 0].max() < len(vectors)
