"""Word vectors: those of a vocabulary are read exactly, and every damaged file is rejected."""

from __future__ import annotations

import re
import tracemalloc
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.datasets.fewrel import choose_vectors, read_vectors

REMEDY = "delete it and run 'metapac data fetch fewrel' again."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("glove") / "glove.txt"


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def assert_refused(
    path: Path, text: str | bytes, message: str, words: tuple[str, ...] = ("a",)
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_vectors(write(path, text), words)
    assert str(caught.value).startswith(f"{path}")
    assert str(caught.value).endswith(REMEDY)


piece = st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs"]), min_size=1)
letters = st.text("abc.@\xa0\x85\u2028\u3000é", min_size=1, max_size=3)  # never a number
words_with_spaces = st.builds(
    lambda first, rest: " ".join([first, *rest]), piece, st.lists(letters, max_size=2)
)


@given(
    words=st.lists(words_with_spaces, min_size=1, max_size=8, unique=True),
    width=st.integers(1, 4),
    header=st.booleans(),
    end=st.sampled_from(["\n", " \n", "\r\n"]),
    data=st.data(),
)
def test_words_are_returned_in_the_order_of_the_file(
    place: Path, words: list[str], width: int, header: bool, end: str, data: st.DataObject
) -> None:
    lines = [*words, *data.draw(st.lists(st.sampled_from(words), max_size=3))]
    vectors = np.random.default_rng(len(lines)).normal(size=(len(lines), width)).round(5)
    wanted = set(data.draw(st.lists(st.sampled_from(words), max_size=4))) | {"not there", "\ud800"}
    with place.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{len(lines)} {width}\n" if header else "")
        for word, vector in zip(lines, vectors, strict=True):
            file.write(" ".join([word, *(f"{v:.5f}" for v in vector)]) + end)
    result, read = read_vectors(place, wanted)
    first = [i for i, word in enumerate(words) if word in wanted]  # repeats come later
    assert result == [words[i] for i in first]
    assert (str(read.dtype), read.shape) == ("float32", (len(first), width))
    np.testing.assert_array_equal(read, vectors[first].astype(np.float32))


def test_a_word_with_spaces_is_not_confused_with_its_first_part(place: Path) -> None:
    text = ". . . 1 2\n. 3 4\nat name@domain.com 5 6\nat 7 8\n1990 9 10\nnan 11 12\nto nan 0 0\n"
    words, vectors = read_vectors(write(place, text), [".", "at", "1990", "nan"])
    assert words == [".", "at", "1990", "nan"]
    assert vectors.tolist() == [[3, 4], [7, 8], [9, 10], [11, 12]]
    words, vectors = read_vectors(place, [". . .", "at name@domain.com", "name@domain.com"])
    assert words == [". . .", "at name@domain.com"]
    assert vectors.tolist() == [[1, 2], [5, 6]]


def test_numbers_are_read_in_every_notation(place: Path) -> None:
    words, vectors = read_vectors(write(place, "a -3e-05 +1.5 .5\nb 1E2 2 3.\n"), "ab")
    assert words == ["a", "b"]
    expected = [[-3e-05, 1.5, 0.5], [100, 2, 3]]
    np.testing.assert_array_equal(vectors, np.array(expected, np.float32))


def test_every_truncation_within_a_line_is_noticed(place: Path) -> None:
    whole = "a 0.25 1.5\nb 2.5 -3e-1\nc 1 2\n"
    for header in ("", "3 2\n"):
        text = header + whole
        for size in range(1, len(text)):
            write(place, text[:size])
            if (
                not header and text[size - 1] == "\n"
            ):  # whole lines: noticed only if line 1 states how many
                assert read_vectors(place, "abc")[0] == [*"abc"[: text.count("\n", 0, size)]]
                continue
            with pytest.raises(
                ValueError, match=r"has no line end: the file is truncated|as line 1 says, got"
            ):
                read_vectors(place, "abc")
        assert len(read_vectors(write(place, text), "abc")[0]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty."),
        ("a 1 2\nb 3\nc 4 5\n", ", line 2 must be a word and 2 numbers, got 2 fields: 'b 3'."),
        ("a 1 2\nb 3 4 5\n", ", line 2 must be a word and 2 numbers, got 4 fields: 'b 3 4 5'."),
        ("a 1 2\n\n", ", line 2 must be a word and 2 numbers, got 1 fields: ''."),
        ("a 1 2\nb\t3\t4\n", ", line 2 must be a word and 2 numbers, got 1 fields: 'b\\t3\\t4'."),
        ("2 2\na 1 2\nb 3\n", ", line 3 must be a word and 2 numbers, got 2 fields"),
        ("3 2\na 1 2\nb 3 4\n", " must have 3 words, as line 1 says, got 2."),
        ("1 2\na 1 2\nb 3 4\n", " must have 1 words, as line 1 says, got 2."),
        ("b 1 2\na 3", ", line 2 has no line end: the file is truncated."),
        ("b 1 2\na 3 4", ", line 2 has no line end: the file is truncated."),
        ("<html> moved </html>\n", ", line 1 must be a word and its numbers, got '<html> moved"),
        ("word\n", ", line 1 must be a word and its numbers, got 'word'."),
        ("b 1 2\na 3 x\n", ", line 2 must be a word and 2 finite numbers, got '3 x'."),
        ("b 1 2\na 3 nan\n", ", line 2 must be a word and 2 finite numbers, got '3 nan'."),
        ("b 1 2\na 3 -inf\n", ", line 2 must be a word and 2 finite numbers, got '3 -inf'."),
        ("b 1 2\na 1e39 3\n", ", line 2 must be a word and 2 finite numbers, got '1e39 3'."),
        (b"a 1 2\nb\xff 3 4\n", ", line 2 is not UTF-8 text ("),
        (b"PK\x03\x04\xff\xfe\n", ", line 1 is not UTF-8 text ("),
        ("b 1 2\n" + "a " + "x" * 90 + "\n", f"fields: 'a {'x' * 54}...."),
    ],
)
def test_the_damaged_line_is_named(place: Path, text: str | bytes, message: str) -> None:
    assert_refused(place, text, message)


def test_vectors_of_other_words_are_not_parsed(place: Path) -> None:
    assert read_vectors(write(place, "a 1 2\nb x y\n"), ["a"])[0] == ["a"]


def test_without_matching_words_the_result_is_empty_but_has_the_width(place: Path) -> None:
    write(place, "a 1 2\n")
    for words in ([], ["b"], ["a\ud800"]):
        result, vectors = read_vectors(place, words)
        assert (result, vectors.shape, str(vectors.dtype)) == ([], (0, 2), "float32")


def test_memory_does_not_grow_with_the_file(place: Path) -> None:
    row = " 0.12345" * 100
    with place.open("w") as file:
        file.writelines(f"word{i}{row}\n" for i in range(10_000))  # 8 MB
    tracemalloc.start()
    try:
        assert len(read_vectors(place, [f"word{i}" for i in range(100)])[0]) == 100
        assert tracemalloc.get_traced_memory()[1] < 2**20
        with place.open("wb") as file:
            file.truncate(2**28)  # zeros, and no line end
        with pytest.raises(ValueError, match=r"line 1 has no line end"):
            read_vectors(place, ["a"])
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()
        place.unlink()


def test_progress_counts_bytes_to_the_end(place: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    size = write(place, "a 1 2\n" * 40_000).stat().st_size
    read_vectors(place, ["a"], progress=lambda *call: seen.append(call))
    done = (6 * 2**14, 12 * 2**14, size)
    assert seen == [("reading word vectors", bytes_done, size) for bytes_done in done]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file .*glove\.6B\.50d\.txt"):
        read_vectors(tmp_path / "glove.6B.50d.txt", ["a"])


def test_the_vectors_of_the_paper_are_preferred(tmp_path: Path) -> None:
    best_first = [
        "glove.6B.50d.txt",
        "glove.twitter.27B.50d.txt",
        "glove.6B.100d.txt",
        "glove.6B.300d.txt",
        "glove.twitter.27B.25d.txt",
        "glove.840B.300d.txt",
        "glove_mine.txt",
    ]
    for better, worse in permutations(best_first, 2):
        if best_first.index(better) < best_first.index(worse):
            near, deep = tmp_path / f"{better}+{worse}", tmp_path / f"{better}+{worse}" / "deep"
            deep.mkdir(parents=True)
            write(near / worse, "")
            write(deep / better, "")
            assert choose_vectors([near]) == deep / better
            assert choose_vectors([near, deep]) == deep / better
            assert choose_vectors([tmp_path / "none"]) is None


def test_other_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "glove.6B.50d.txt").mkdir()
    write(tmp_path / "glove.6B.50d.txt.gz", "")
    write(tmp_path / "notes.txt", "")
    (tmp_path / "a" / "b").mkdir(parents=True)
    write(tmp_path / "a" / "b" / "glove.6B.50d.txt", "")
    assert choose_vectors([tmp_path]) is None
