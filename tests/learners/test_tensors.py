"""Tensor files: what was written comes back, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

import metapac
from metapac import BadArtefact, artefact
from metapac.artefact import Format
from metapac.fewshot import tensors
from metapac.fewshot.tensors import data_checksum, read_tensors, write_tensors
from tests.helpers.refusals import assert_refused

PLAIN = Format("metapac example", written_by="'metapac example'")
UNSIGNED = Format("metapac example", written_by="'metapac example'", unsigned=True)
BODY = {"names": ["a", "\N{SNOWMAN}"], "value": 0.1, "nested": {"n": [1, None, True]}}
ARRAYS: dict[str, Any] = {
    "one": np.arange(3, dtype=np.uint8),
    "two": np.linspace(0, 1, 10).reshape(2, 5),
    "flags": np.array([True, False]),
    "empty": np.empty((0, 4), dtype=np.float32),
    "\N{SNOWMAN}": np.array(7, dtype=np.int64),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.safetensors"


def test_the_checksum_of_arrays_covers_types_and_shapes() -> None:
    x = np.arange(6.0)
    assert data_checksum(x) == data_checksum(x.tolist())
    assert data_checksum(x[::2]) == data_checksum(x[::2].copy())
    others = [x.reshape(2, 3), x.astype(np.float32), x[:5], -x, np.empty((0, 6)), np.array("a")]
    assert len({data_checksum(other) for other in [x, *others]}) == 7
    assert data_checksum(x, x) != data_checksum(x)
    assert_refused("arrays object", data_checksum, np.array(["a", 1], dtype=object))


def test_tensors_come_back_with_their_document(path: Path) -> None:
    write_tensors(path, ARRAYS, BODY, PLAIN)
    document, arrays = read_tensors(path, PLAIN)
    head = {"format": "metapac example", "schema": 1, "metapac": metapac.__version__}
    assert document == head | BODY
    for found in (arrays, safetensors.numpy.load_file(path)):  # the library reads it itself
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    content = path.read_bytes()
    assert int.from_bytes(content[:8], "little") % 8 == 0  # aligned when it is memory-mapped
    write_tensors(path, dict(reversed(ARRAYS.items())), BODY, PLAIN)
    assert path.read_bytes() == content
    given = {"half": torch.linspace(0, 1, 7, dtype=torch.bfloat16), "steps": torch.tensor(3)}
    write_tensors(path, given, {}, PLAIN, framework="torch")
    _, result = read_tensors(path, PLAIN, framework="torch")
    assert all(torch.equal(result[name], tensor) for name, tensor in given.items())
    with pytest.raises(BadArtefact, match="no valid tensors"):  # NumPy has no bfloat16
        read_tensors(path, PLAIN)


def pack(header: Any, data: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_other_files_are_refused(path: Path) -> None:
    documents = [1, "{", "[" * 100_000, "[]", '{"format": "metapac weights"}']
    metadata: list[Any] = [None, [], {}, *({"metapac": document} for document in documents)]
    headers = [[], "text", {}, *({"__metadata__": value} for value in metadata)]
    contents = [b"", b"{}", b"\xff" * 8, b"\xff" * 200, (8).to_bytes(8, "little") + b"\xff" * 8]
    for content in (*contents, *map(pack, headers), safetensors.numpy.save(ARRAYS)):
        path.write_bytes(content)
        with pytest.raises(BadArtefact, match="is not a metapac example file"):
            read_tensors(path, PLAIN)


def test_forged_headers_are_refused(path: Path) -> None:
    def forge(header: dict[str, Any], data: bytes = bytes(16)) -> None:
        """Write a tensor file whose checksums are right for any header."""
        digest = tensors._checksum(header, memoryview(data))
        document = json.dumps(artefact.sign({"tensors_sha256": digest}, PLAIN))
        path.write_bytes(pack({"__metadata__": {"metapac": document}, **header}, data))

    tensor: dict[str, Any] = {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]}
    forge({"x": tensor})
    assert read_tensors(path, PLAIN)[1]["x"].tolist() == [0, 0]  # the forger changes nothing else
    changes: list[dict[str, Any]] = [{"shape": x} for x in ([3], [-1], [2**40, 2**40])]
    changes += [{"data_offsets": x} for x in ([0, 2**60], [8, 24])] + [{"dtype": "Z9"}]
    headers: list[Any] = [{"x": tensor | change} for change in changes]
    for header in (*headers, {"x": tensor, "y": tensor}, {"x": []}, {}):
        forge(header)
        with pytest.raises(BadArtefact, match="no valid tensors"):
            read_tensors(path, PLAIN)


def test_tensors_without_a_checksum_are_only_read_if_they_are_old(path: Path) -> None:
    unsigned = json.dumps({"format": "metapac example", "schema": 1, "metapac": "0.0"})
    path.write_bytes(safetensors.numpy.save({"x": np.ones(2)}, metadata={"metapac": unsigned}))
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(path, PLAIN)
    with pytest.warns(UserWarning, match="has no checksum"):
        assert read_tensors(path, UNSIGNED)[1]["x"].tolist() == [1, 1]
    write_tensors(path, {"x": np.ones(2)}, {}, UNSIGNED)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        read_tensors(path, UNSIGNED)
