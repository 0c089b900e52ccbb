"""Documents and tensor files: what was written comes back, and nothing else is accepted."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

import metapac
from metapac import BadArtefact, MissingExtra, artefact
from metapac.artefact import Format

PLAIN = Format("metapac example", written_by="'metapac example'")
NEWER = Format("metapac example", written_by="'metapac example'", schema=3, oldest=2)
UNSIGNED = Format("metapac example", written_by="'metapac example'", unsigned=True)
BODY = {"names": ["a", "\N{SNOWMAN}"], "value": 0.1, "nested": {"n": [1, None, True]}}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def signed(body: dict[str, Any], kind: Format = PLAIN) -> dict[str, Any]:
    return artefact.sign(body, kind)


@given(body=st.dictionaries(st.text(), json_values, max_size=4))
def test_any_json_comes_back(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, Any]
) -> None:
    body = {f"body {key}": value for key, value in body.items()}
    path = tmp_path_factory.mktemp("document") / "a.json"
    artefact.write(path, body, PLAIN)
    document = artefact.read(path, PLAIN)
    assert {key: document[key] for key in body} == body


def test_a_document_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    document = json.loads(path.read_text())
    assert list(document) == ["format", "schema", "metapac", *BODY, "checksum"]
    assert document["format"] == "metapac example"
    assert document["schema"] == 1
    assert document["metapac"] == metapac.__version__
    assert len(path.read_text().splitlines()) == len(document) + 2  # one key per line
    assert artefact.read(path, PLAIN).keys() == document.keys() - {"checksum"}


def test_the_checksum_is_that_of_canonical_json() -> None:
    canonical = '{"a":[1,0.1],"b":"\\u2603"}'
    expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert artefact.checksum({"b": "\N{SNOWMAN}", "a": [1, 0.1]}) == expected
    with pytest.raises(ValueError, match="Out of range float values"):
        artefact.checksum({"a": math.nan})


def test_every_changed_character_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    text = path.read_text()
    for i, character in enumerate(text):
        if not character.isspace():
            path.write_text(text[:i] + ("8" if character != "8" else "9") + text[i + 1 :])
            with pytest.raises(BadArtefact):
                artefact.read(path, PLAIN)


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    # Readers differ in which one they take, and the checksum covers only one.
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    path.write_text(path.read_text().replace("{\n", '{\n"metapac": "another",\n', 1))
    with pytest.raises(BadArtefact, match="a.json is not a valid .* file: key 'metapac' occurs tw"):
        artefact.read(path, PLAIN)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    text = path.read_text().rstrip()
    for end in range(1, len(text)):
        path.write_text(text[:end])
        with pytest.raises(BadArtefact, match="is not complete JSON .* it may be truncated. Write"):
            artefact.read(path, PLAIN)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a metapac example file. Pass a file written by 'metapac example'"),
        (b"site,p_cat\n", "is not a metapac example file"),
        (b"[]", "is not a metapac example file"),
        (b"null", "is not a metapac example file"),
        (b'{"a": 1}', "is not a metapac example file"),
        (b"{\xff\xfe", "is not complete JSON"),
        (b'{"a": ' + b"[" * 100_000, "is not complete JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "is not complete JSON"),
        (b"[" * 100_000, "is not a metapac example file"),
        (b'{"format": "metapac example"}', "has schema None"),
        (b'{"format": "metapac example", "schema": true}', "has schema True"),
        (b'{"format": "metapac example", "schema": 1}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "checksum": {}}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": NaN}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": 1e999}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": "\\ud800"}', "was edited or damaged"),
    ],
)
def test_a_bad_document_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(BadArtefact, match=message):
        artefact.read(tmp_path / "a.json", PLAIN)


def test_schemas_out_of_range_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, NEWER)
    with pytest.raises(BadArtefact, match=r"has schema 3, .* reads schemas up to 1. Upgrade metap"):
        artefact.read(path, PLAIN)
    assert artefact.read(path, NEWER)["schema"] == 3
    artefact.write(path, BODY, PLAIN)
    with pytest.raises(BadArtefact, match="has schema 1, .* reads schemas from 2 on. Write it aga"):
        artefact.read(path, NEWER)


def test_a_missing_file_is_not_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        artefact.read(tmp_path / "a.json", PLAIN)
    with pytest.raises(FileNotFoundError):
        artefact.read_tensors(tmp_path / "a.safetensors", PLAIN)


def test_files_without_a_checksum_are_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": "metapac example", "schema": 1, "metapac": "0.0"}')
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read(path, PLAIN)
    with pytest.warns(UserWarning, match="has no checksum, so damage would go unnoticed"):
        assert artefact.read(path, UNSIGNED)["metapac"] == "0.0"
    path.write_text(json.dumps(signed(BODY) | {"value": 0.2}))
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read(path, UNSIGNED)


# Tensor files

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
    digest = artefact._tensor_checksum(header, memoryview(data))
    document = json.dumps(signed({"tensors_sha256": digest}))
    return pack({"__metadata__": {"metapac": document}, **header}, data)


def test_tensors_come_back_with_their_document(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    artefact.write_tensors(path, ARRAYS, BODY, PLAIN)
    document, arrays = artefact.read_tensors(path, PLAIN)
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
    artefact.write_tensors(path, tensors, {}, PLAIN, framework="torch")
    _, result = artefact.read_tensors(path, PLAIN, framework="torch")
    assert result.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert result[name].dtype == tensor.dtype
        assert torch.equal(result[name], tensor)
    with pytest.raises(BadArtefact, match="does not hold valid tensors"):  # NumPy has no bfloat16
        artefact.read_tensors(path, PLAIN)


def test_no_tensors_at_all(tmp_path: Path) -> None:
    artefact.write_tensors(tmp_path / "a.safetensors", {}, BODY, PLAIN)
    assert artefact.read_tensors(tmp_path / "a.safetensors", PLAIN)[1] == {}


@pytest.mark.parametrize(
    "name", ["a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg", "\N{SNOWMAN}"]
)
def test_the_safetensors_library_reads_the_file_itself(tmp_path: Path, name: str) -> None:
    path, array = tmp_path / "a.safetensors", np.linspace(0, 1, 5)
    artefact.write_tensors(path, {name: array}, BODY, PLAIN)
    np.testing.assert_array_equal(safetensors.numpy.load_file(path)[name], array)
    assert safetensors.torch.load_file(path)[name].tolist() == array.tolist()
    with safetensors.safe_open(path, framework="np") as file:
        assert json.loads(file.metadata()["metapac"])["value"] == BODY["value"]
    header_size = int.from_bytes(path.read_bytes()[:8], "little")
    assert header_size % 8 == 0  # so that tensors are aligned when the file is memory-mapped


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    artefact.write_tensors(first, ARRAYS, BODY, PLAIN)
    artefact.write_tensors(second, dict(reversed(ARRAYS.items())), BODY, PLAIN)
    assert first.read_bytes() == second.read_bytes()


def test_every_changed_byte_of_a_tensor_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    artefact.write_tensors(path, {"x": np.arange(3.0)}, {"rng": 1}, PLAIN)
    content = path.read_bytes()
    before = artefact.read_tensors(path, PLAIN)
    for i in range(len(content)):
        changed = bytes([content[i] ^ 1])
        path.write_bytes(content[:i] + changed + content[i + 1 :])
        try:
            document, arrays = artefact.read_tensors(path, PLAIN)
        except BadArtefact:
            continue
        # Nothing but blanks can change unnoticed.
        assert document == before[0], (i, content[i : i + 1], changed)
        np.testing.assert_array_equal(arrays["x"], before[1]["x"])


def test_every_truncation_of_a_tensor_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    artefact.write_tensors(path, {"x": np.arange(3.0)}, {}, PLAIN)
    content = path.read_bytes()
    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(BadArtefact):
            artefact.read_tensors(path, PLAIN)
    path.write_bytes(content + b"\0")
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read_tensors(path, PLAIN)


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
        artefact.read_tensors(tmp_path / "a.safetensors", PLAIN)


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
    (tmp_path / "a.safetensors").write_bytes(forge(header, bytes(16)))
    with pytest.raises(BadArtefact, match="does not hold valid tensors .* Write it again"):
        artefact.read_tensors(tmp_path / "a.safetensors", PLAIN)


def test_the_forgery_is_otherwise_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(forge({"x": TENSOR}, bytes(16)))
    assert artefact.read_tensors(tmp_path / "a.safetensors", PLAIN)[1]["x"].tolist() == [0, 0]


def test_a_document_moved_to_other_tensors_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    artefact.write_tensors(first, {"x": np.zeros(2)}, {}, PLAIN)
    artefact.write_tensors(second, {"x": np.ones(2)}, {}, PLAIN)
    one, other = first.read_bytes(), second.read_bytes()
    assert len(one) == len(other)
    first.write_bytes(one[:-16] + other[-16:])
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read_tensors(first, PLAIN)


def test_tensors_without_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    unsigned = json.dumps({"format": "metapac example", "schema": 1, "metapac": "0.0"})
    path.write_bytes(safetensors.numpy.save({"x": np.ones(2)}, metadata={"metapac": unsigned}))
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read_tensors(path, PLAIN)
    with pytest.warns(UserWarning, match="has no checksum"):
        assert artefact.read_tensors(path, UNSIGNED)[1]["x"].tolist() == [1, 1]
    artefact.write_tensors(path, {"x": np.ones(2)}, {}, UNSIGNED)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with warnings.catch_warnings(), pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read_tensors(path, UNSIGNED)


def test_a_failed_write_leaves_the_old_tensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    artefact.write_tensors(path, {"x": np.ones(2)}, {}, PLAIN)
    before = path.read_bytes()
    with pytest.raises(TypeError, match="not JSON serializable"):
        artefact.write_tensors(path, {"x": np.zeros(2)}, {"rng": object()}, PLAIN)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    call: Callable[..., Any] = artefact.read_tensors
    message = r"a metapac example file needs safetensors. Install it .* 'metapac\[torch\]'"
    with pytest.raises(MissingExtra, match=message):
        call(tmp_path / "a.safetensors", PLAIN, framework="nothing")


# Values that JSON cannot hold


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0.1, 0.1),
        (np.float32(0.25), 0.25),
        (Fraction(1, 4), 0.25),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (None, None),
        ("joint", "joint"),
        ({np.int64(1): Fraction(1, 2), "a": 0.1}, {"by_class": [[1, 0.5], ["a", 0.1]]}),
    ],
)
def test_parameters_are_encoded(value: Any, encoded: Any) -> None:
    result = artefact.encode_parameters({"epsilon": value})["epsilon"]
    assert result == encoded
    assert type(result) is type(encoded)
    json.dumps(result)


def test_parameters_come_back() -> None:
    parameters = {"epsilon": {1: 0.5, 2: 0.1}, "alpha": 0.1, "split": "joint", "delta": None}
    encoded = artefact.encode_parameters(parameters)
    assert artefact.decode_parameters(json.loads(json.dumps(encoded))) == parameters


def test_infinities_are_encoded_as_strings() -> None:
    assert artefact.encode_floats([[1.5, math.inf], [-math.inf, 0.0]]) == [
        [1.5, "inf"],
        ["-inf", 0.0],
    ]
    assert artefact.encode_floats(-math.inf) == "-inf"
    assert np.array(artefact.encode_floats([0.5, -math.inf]), dtype=float).tolist() == [
        0.5,
        -math.inf,
    ]


def test_a_file_that_has_lost_its_checksum_alone_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    artefact.write_tensors(path, {"x": np.ones(2)}, {}, UNSIGNED)
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    document = json.loads(header["__metadata__"]["metapac"])
    del document["checksum"]
    header["__metadata__"]["metapac"] = json.dumps(document)
    packed = json.dumps(header).encode()
    data = bytearray(content[8 + size :])
    data[0] ^= 1
    path.write_bytes(len(packed).to_bytes(8, "little") + packed + bytes(data))
    with (
        pytest.warns(UserWarning, match="has no checksum"),
        pytest.raises(BadArtefact, match="was edited or damaged"),
    ):
        artefact.read_tensors(path, UNSIGNED)
