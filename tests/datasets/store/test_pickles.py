"""Pickles give plain data, and nothing in them is ever executed."""

from __future__ import annotations

import copyreg
import gc
import json
import os
import pickle
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.datasets.pickles import load

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
keys = st.text() | st.integers() | st.text().map(str.encode)
plain = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def write(folder: Path, content: bytes) -> Path:
    path = folder / "file.pkl"
    path.write_bytes(content)
    return path


def with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key.decode() if isinstance(key, bytes) else key: with_text_keys(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map(with_text_keys, value))
    return value


@given(value=plain, protocol=st.sampled_from(PROTOCOLS))
def test_plain_data_come_back(
    tmp_path_factory: pytest.TempPathFactory, value: Any, protocol: int
) -> None:
    path = write(tmp_path_factory.mktemp("plain"), pickle.dumps(value, protocol=protocol))
    result, expected = load(path), with_text_keys(value)
    assert result == expected
    assert repr(result) == repr(expected)  # True is not 1, and -0.0 is not 0.0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "kind", ["u1", "b1", "<i4", ">i8", "<f8", ">f4", "f2", "c16", "S3", "<U2", ">U2"]
)
def test_arrays_and_numbers_of_numpy_come_back(tmp_path: Path, protocol: int, kind: str) -> None:
    array = np.arange(24).astype(kind).reshape(2, 3, 4)
    held = {
        "c": array,
        "fortran": np.asfortranarray(array),
        "strided": array[:, ::2],
        "none": array[:0],
        "point": np.array(array[1, 1, 1]),
        "number": array[1, 2, 3],
        "twice": [array, array],
        "type": array.dtype,
    }
    result = load(write(tmp_path, pickle.dumps(held, protocol=protocol)))
    for name in ("c", "fortran", "strided", "none", "point", "number"):
        np.testing.assert_array_equal(result[name], held[name])
        assert (result[name].dtype, result[name].shape) == (held[name].dtype, held[name].shape)
    assert isinstance(result["number"], np.generic)
    assert result["type"] == array.dtype
    assert result["twice"][0] is result["twice"][1]
    assert not result["c"].flags.writeable


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lone_surrogates_come_back(tmp_path: Path, protocol: int) -> None:
    path = write(tmp_path, pickle.dumps(["\ud800", "\N{SNOWMAN}"], protocol=protocol))
    assert load(path) == ["\ud800", "\N{SNOWMAN}"]


# As Python 2 wrote the batches of CIFAR-10.
PYTHON_2 = (
    b"\x80\x02}q\x00(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\n"
    b"q\x03K\x00\x85q\x04U\x01bq\x05\x87q\x06Rq\x07(K\x01K\x02K\x03\x86q\x08cnumpy\ndtype\nq\t"
    b"U\x02u1q\nK\x00K\x01\x87q\x0bRq\x0c(K\x03U\x01|q\rNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    b"K\x00tq\x0eb\x89U\x06\x00\x01\x02\xfd\xfe\xfftq\x0fbU\x06labelsq\x10]q\x11(K\x03K\x05e"
    b"U\tfilenamesq\x12]q\x13U\x05a.pngq\x14au."
)
PYTHON_2_OLDEST = b"(dp0\nS'na\\xefve'\np1\nS'\\x00\\'\\xff'\np2\nsS'big'\nL3L\nsS'yes'\nI01\ns."


def test_pickles_of_python_2_come_back(tmp_path: Path) -> None:
    result = load(write(tmp_path, PYTHON_2))
    assert result["data"].tolist() == [[0, 1, 2], [253, 254, 255]]
    assert (result["labels"], result["filenames"]) == ([3, 5], [b"a.png"])
    oldest = PYTHON_2_OLDEST.replace(b"na\\xefve", b"naive")
    assert load(write(tmp_path, oldest)) == {"naive": b"\x00'\xff", "big": 3, "yes": True}


def test_keys_that_are_not_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a complete pickle .UnicodeDecodeError"):
        load(write(tmp_path, PYTHON_2_OLDEST))


def test_a_large_array_is_in_memory_once(tmp_path: Path) -> None:
    size = 2**23
    for protocol in (3, 4, 5):
        path = write(tmp_path, pickle.dumps({"data": np.zeros(size, "u1")}, protocol=protocol))
        gc.collect()
        tracemalloc.start()
        result = load(path)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert result["data"].nbytes == size
        assert most < 1.1 * size


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_truncation_is_refused(tmp_path: Path, protocol: int) -> None:
    held = {"data": np.arange(6, dtype="u1").reshape(2, 3), "names": ["a", b"b", 1.5, (1, 2)]}
    whole = pickle.dumps(held, protocol=protocol)
    for end in range(1, len(whole)):
        with pytest.raises(ValueError, match="file.pkl is not a complete pickle .*again"):
            load(write(tmp_path, whole[:end]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"",
            r"file\.pkl is empty: it has 0 bytes\. Delete it and get it from its publisher again",
        ),
        (b"<html>404</html>", r"is not a complete pickle \(KeyError"),
        (b"\x1f\x8b\x08\x00", "is not a complete pickle"),
        (json.dumps({"a": 1}).encode(), "is not a complete pickle"),
        (b"\x80\x04.", "is not a complete pickle .IndexError"),
        (b"\x80\x04K\x01\x86.", "the stack is too short"),
        (b"\x80\x04h\x05.", "is not a complete pickle .KeyError: 5"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.pkl")


class Calls:
    """Pickles as a call of ``function``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, r"(posix|nt)\.system"),
        (eval, r"(builtins|__builtin__)\.eval"),
        (getattr, r"(builtins|__builtin__)\.getattr"),
        (__import__, r"(builtins|__builtin__)\.__import__"),
        (np.load, r"numpy\.load"),
        (np.testing.assert_equal, r"numpy\.testing"),
        (np.array, r"numpy\.array"),
        (bytearray, r"(builtins|__builtin__)\.bytearray"),
        (pickle.loads, r"_?pickle\.loads"),
        (copyreg._reconstructor, r"copy_?reg\._reconstructor"),  # type: ignore[attr-defined]
    ],
)
def test_a_call_of_anything_else_is_refused_by_its_name(
    tmp_path: Path, function: Any, name: str, protocol: int
) -> None:
    trap = tmp_path / "trap"
    hostile = pickle.dumps([1, Calls(function, f"touch {trap}")], protocol=protocol)
    message = (
        f"asks for {name}.*, near byte .* Only containers, .*nothing is executed. Delete it and"
    )
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, hostile))
    assert not trap.exists()


def named(module: str, name: str) -> bytes:
    """STACK_GLOBAL"""
    return b"".join(b"\x8c" + bytes([len(s)]) + s.encode() for s in (module, name)) + b"\x93"


NDARRAY, DTYPE = named("numpy", "ndarray"), named("numpy", "dtype")
RECONSTRUCT = named("numpy._core.multiarray", "_reconstruct")
ENCODE = named("_codecs", "encode")
EMPTY_ARRAY = RECONSTRUCT + NDARRAY + b"K\x00\x85C\x01b\x87R"
UINT8 = DTYPE + b"\x8c\x02u1\x89\x88\x87R"


@pytest.mark.parametrize(
    ("program", "asked"),
    [
        (named("os", "system") + b"\x8c\x04true\x85R", r"os\.system"),
        (named("numpy", "f2py.os.system") + b"\x8c\x04true\x85R", r"numpy\.f2py\.os\.system"),
        (named("numpy.f2py", "compile"), r"numpy\.f2py\.compile"),
        (named("numpy.core.multiarray", "fromstring"), r"numpy\.core\.multiarray\.fromstring"),
        (named("antigravity", "fly"), r"antigravity\.fly"),
        (b"\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93", r"os\.system"),  # through the memo
        (b"\x8c\x02osK\x01\x93", r"os\.1"),
        (b"cos\nsystem\n(S'true'\ntR", r"os\.system"),
        (b"(S'true'\nios\nsystem\n", "the opcode INST"),
        (b"(" + NDARRAY + b"K\x01o", "the opcode OBJ"),
        (NDARRAY + b"K\x01\x85\x81", "the opcode NEWOBJ"),
        (NDARRAY + b"K\x01\x85}\x92", "the opcode NEWOBJ_EX"),
        (NDARRAY + b"K\x01\x85R", "a call of type"),
        (b"\x8c\x04true\x85\x94h\x00R", "a call of"),
        (b"]" + ENCODE + b"a", "a function as a value"),
        (ENCODE, "a function as a value"),
        (ENCODE + b"}b", "the state of a _Function to be set"),
        (NDARRAY + b"N}\x8c\x0a__reduce__\x94K\x01s\x86b", "the state of a type to be set"),
        (b"]}b", "the state of a list to be set"),
        (b"\x80\x05\x82\xf0", "the opcode EXT1"),
        (b"\x80\x05\x83\xf0\x00", "the opcode EXT2"),
        (b"\x80\x05\x84\xf0\x00\x00\x00", "the opcode EXT4"),
        (b"Pid\n", "the opcode PERSID"),
        (b"K\x01Q", "the opcode BINPERSID"),
        (b"\x97", "the opcode NEXT_BUFFER"),
        (b"\x8f", "the opcode EMPTY_SET"),
        (b"K\x01" + b"K\x02a", "items to be added to a int"),
        (NDARRAY + b"K\x01K\x02s", "keys to be set in a type"),
        (b"}]K\x01s", "a list as a dictionary's key"),
        (b"}))\x86K\x01s", "a tuple as a dictionary's key"),
        (ENCODE + b"\x8c\x01a\x8c\x05rot13\x86R", "text to be encoded as 'rot13'"),
        (DTYPE + b"\x8c\x02O8\x89\x88\x87R", "an array of 'O8', which are not plain numbers"),
        (DTYPE + b"\x8c\x02V8\x89\x88\x87R", "an array of 'V8'"),
        (DTYPE + b"\x8c\x05u1,O8\x89\x88\x87R", "an array of 'u1,O8'"),
        (UINT8 + b"(K\x03\x8c\x01|N\x8c\x01a\x85}J\xff\xff\xff\xffK\x01K\x3ftb", "of records"),
    ],
)
def test_hostile_programs_are_refused(tmp_path: Path, program: bytes, asked: str) -> None:
    copyreg.add_extension("os", "getpid", 0xF0)
    try:
        pickle.loads(b"\x80\x05\x82\xf0.")  # now in the cache that find_class never sees
        with pytest.raises(ValueError, match=rf"file\.pkl asks for .*{asked}.*nothing is executed"):
            load(write(tmp_path, program + b"."))
    finally:
        copyreg.remove_extension("os", "getpid", 0xF0)
    assert "antigravity" not in sys.modules


def test_arrays_of_objects_and_of_records_are_refused(tmp_path: Path) -> None:
    for array in (np.array([1, "a"], dtype=object), np.zeros(2, [("a", "u1"), ("b", "O")])):
        for protocol in PROTOCOLS:
            with pytest.raises(ValueError, match="which are not plain numbers or text"):
                load(write(tmp_path, pickle.dumps(array, protocol=protocol)))


@pytest.mark.parametrize(
    "program",
    [
        EMPTY_ARRAY,  # never filled
        b"]" + EMPTY_ARRAY + b"a",
        EMPTY_ARRAY + b"(K\x01K\x03\x85" + UINT8 + b"\x89C\x02abtb",  # two bytes for three
        EMPTY_ARRAY + b"(K\x01K\x03\x85\x8c\x02u1\x89C\x03abctb",  # not a type
        EMPTY_ARRAY + b"(K\x01K\x02\x85" + UINT8 + b"\x89]tb",  # a list where bytes belong
        named("numpy.core.multiarray", "scalar") + UINT8 + b"C\x00\x86R",
        b"\x8e" + (2**60).to_bytes(8, "little") + b"abc",
        b"B\xff\xff\xff\xffabc",
        b"L" + b"9" * 5000 + b"L\n",
        b"S'a' + 'b'\n",
        b"S'a', 'b'\n",
    ],
)
def test_invalid_programs_are_refused(tmp_path: Path, program: bytes) -> None:
    with pytest.raises(ValueError, match="is not a complete pickle"):
        load(write(tmp_path, program + b"."))


def test_small_files_do_not_take_large_memory(tmp_path: Path) -> None:
    far = b"K\x01r\xff\xff\xff\xff0."  # a memo of 2**32 places
    laughs = b"]\x94" + b"".join(
        b"]\x94(h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(60)
    )
    gc.collect()
    tracemalloc.start()
    with pytest.raises(ValueError, match="the opcode POP"):
        load(write(tmp_path, far))
    result = load(write(tmp_path, laughs + b"."))  # 2**60 lists if they were copied
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result) == 2
    assert most < 2**20


@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_give_plain_data_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = write(tmp_path_factory.mktemp("any"), content)
    try:
        load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017


@given(st.integers(0, len(PYTHON_2) - 1), st.integers(0, 255))
def test_any_changed_byte_gives_plain_data_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    changed = PYTHON_2[:place] + bytes([value]) + PYTHON_2[place + 1 :]
    path = write(tmp_path_factory.mktemp("any"), changed)
    try:
        result = load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert type(result) in (dict, list, tuple, bytes, str, int, float, bool, type(None))
