"""Tensor files: what was written comes back, and nothing else is accepted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

import metapac
from metapac import BadArtefact, InvalidInput, artefact
from metapac.artefact import Format
from metapac.fewshot import tensors
from metapac.fewshot.tensors import data_checksum, read_tensors, write_tensors

PLAIN = Format("metapac example", written_by="'metapac example'")


UNSIGNED = Format("metapac example", written_by="'metapac example'", unsigned=True)


BODY = {"names": ["a", "\N{SNOWMAN}"], "value": 0.1, "nested": {"n": [1, None, True]}}


def signed(body: dict[str, Any], kind: Format = PLAIN) -> dict[str, Any]:
    return artefact.sign(body, kind)


def test_the_checksum_of_arrays_covers_types_and_shapes() -> None:
    x = np.arange(6.0)
    assert data_checksum(x) == data_checksum(x.tolist())
    assert data_checksum(x[::2]) == data_checksum(x[::2].copy())
    others = [x.reshape(2, 3), x.astype(np.float32), x[:5], -x, np.empty((0, 6)), np.array("a")]
    assert len({data_checksum(other) for other in [x, *others]}) == 7
    assert data_checksum(x, x) != data_checksum(x)
    with pytest.raises(InvalidInput, match="arrays must hold numbers or text, got object. Conv"):
        data_checksum(np.array(["a", 1], dtype=object))


ARRAYS: dict[str, Any] = {
    "one": np.arange(3, dtype=np.uint8),
    "two": np.linspace(0, 1, 10).reshape(2, 5),
    "flags": np.array([True, False]),
    "empty": np.empty((0, 4), dtype=np.float32),
    "scalar": np.array(7, dtype=np.int64),
}


def pack(header: Any, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def forge(header: dict[str, Any], data: bytes) -> bytes:
    """Return a tensor file whose checksums are right for any header."""
    digest = tensors._checksum(header, memoryview(data))
    document = json.dumps(signed({"tensors_sha256": digest}))
    return pack({"__metadata__": {"metapac": document}, **header}, data)


def test_tensors_come_back_with_their_document(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, ARRAYS, BODY, PLAIN)
    document, arrays = read_tensors(path, PLAIN)
    assert (
        document
        == {"format": "metapac example", "schema": 1, "metapac": metapac.__version__} | BODY
    )
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_torch_tensors_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {
        "half": torch.linspace(0, 1, 7, dtype=torch.bfloat16),
        "weights": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "empty": torch.empty(0, 2),
        "steps": torch.tensor(3),
    }
    write_tensors(path, tensors, {}, PLAIN, framework="torch")
    _, result = read_tensors(path, PLAIN, framework="torch")
    assert result.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert result[name].dtype == tensor.dtype
        assert torch.equal(result[name], tensor)
    with pytest.raises(BadArtefact, match="no valid tensors"):  # NumPy has no bfloat16
        read_tensors(path, PLAIN)


@pytest.mark.parametrize("name", ["a", "ab", "abcde", "\N{SNOWMAN}"])
def test_the_safetensors_library_reads_the_file_itself(tmp_path: Path, name: str) -> None:
    path, array = tmp_path / "a.safetensors", np.linspace(0, 1, 5)
    write_tensors(path, {name: array}, BODY, PLAIN)
    np.testing.assert_array_equal(safetensors.numpy.load_file(path)[name], array)
    with safetensors.safe_open(path, framework="np") as file:
        assert json.loads(file.metadata()["metapac"])["value"] == BODY["value"]
    header_size = int.from_bytes(path.read_bytes()[:8], "little")
    assert header_size % 8 == 0  # so that tensors are aligned when the file is memory-mapped
    again = tmp_path / "b.safetensors"
    write_tensors(again, dict(reversed(ARRAYS.items())), BODY, PLAIN)
    write_tensors(path, ARRAYS, BODY, PLAIN)
    assert path.read_bytes() == again.read_bytes()


def test_every_changed_byte_of_a_tensor_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": np.arange(3.0)}, {"rng": 1}, PLAIN)
    content = path.read_bytes()
    before = read_tensors(path, PLAIN)
    for i in range(len(content)):
        changed = bytes([content[i] ^ 1])
        path.write_bytes(content[:i] + changed + content[i + 1 :])
        try:
            document, arrays = read_tensors(path, PLAIN)
        except BadArtefact:
            continue
        # Nothing but blanks can change unnoticed.
        assert document == before[0], (i, content[i : i + 1], changed)
        np.testing.assert_array_equal(arrays["x"], before[1]["x"])


def test_every_truncation_of_a_tensor_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": np.arange(3.0)}, {}, PLAIN)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(BadArtefact):
            read_tensors(path, PLAIN)
    path.write_bytes(content + b"\0")
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(path, PLAIN)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff" * 8,
        b"\xff" * 200,
        (8).to_bytes(8, "little") + b"\xff" * 8,
        pack([]),
        pack("text"),
        pack({}),
        pack({"__metadata__": None}),
        pack({"__metadata__": []}),
        pack({"__metadata__": {}}),
        pack({"__metadata__": {"metapac": 1}}),
        pack({"__metadata__": {"metapac": "{"}}),
        pack({"__metadata__": {"metapac": "[" * 100_000}}),
        pack({"__metadata__": {"metapac": "[]"}}),
        pack({"__metadata__": {"metapac": '{"format": "metapac weights"}'}}),
        safetensors.numpy.save(ARRAYS),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(BadArtefact, match="is not a metapac example file"):
        read_tensors(tmp_path / "a.safetensors", PLAIN)


TENSOR: dict[str, Any] = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    "header",
    [
        {"x": TENSOR | {"shape": [3]}},
        {"x": TENSOR | {"shape": [-1]}},
        {"x": TENSOR | {"shape": [2**40, 2**40]}},
        {"x": TENSOR | {"data_offsets": [0, 2**60]}},
        {"x": TENSOR | {"data_offsets": [8, 24]}},
        {"x": TENSOR | {"dtype": "Z9"}},
        {"x": TENSOR, "y": TENSOR},
        {"x": []},
        {},
    ],
)
def test_forged_headers_are_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(forge({"x": TENSOR}, bytes(16)))
    assert read_tensors(path, PLAIN)[1]["x"].tolist() == [0, 0]  # the forger changes nothing else
    path.write_bytes(forge(header, bytes(16)))
    with pytest.raises(BadArtefact, match="no valid tensors .* Write it again"):
        read_tensors(path, PLAIN)


def test_a_document_moved_to_other_tensors_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    write_tensors(first, {"x": np.zeros(2)}, {}, PLAIN)
    write_tensors(second, {"x": np.ones(2)}, {}, PLAIN)
    one, other = first.read_bytes(), second.read_bytes()
    assert len(one) == len(other)
    first.write_bytes(one[:-16] + other[-16:])
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(first, PLAIN)


def test_tensors_without_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    unsigned = json.dumps({"format": "metapac example", "schema": 1, "metapac": "0.0"})
    path.write_bytes(safetensors.numpy.save({"x": np.ones(2)}, metadata={"metapac": unsigned}))
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(path, PLAIN)
    with pytest.warns(UserWarning, match="has no checksum"):
        assert read_tensors(path, UNSIGNED)[1]["x"].tolist() == [1, 1]
    write_tensors(path, {"x": np.ones(2)}, {}, UNSIGNED)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with warnings.catch_warnings(), pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(path, UNSIGNED)


def test_a_failed_write_leaves_the_old_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": np.ones(2)}, {}, PLAIN)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_tensors(path, {"x": np.zeros(2)}, {"rng": object()}, PLAIN)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
