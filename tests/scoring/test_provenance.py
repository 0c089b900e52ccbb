"""Provenance stays with a table of scores, and tells models apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from metapac import BadArtefact, InvalidInput, artefact
from metapac.provenance import (
    FORMAT,
    Provenance,
    read_common_provenance,
    read_provenance,
    write_scores,
)

TABLE = {"task": ["ohio", "utah"], "scores": [[0.1, 0.9], [0.2, 0.3, 0.5]]}
ONE = Provenance(
    model="ProtoNet 1, 5 ways, 5 shots",
    columns={"task": "task", "columns": "scores", "classes": [0, "z\N{SNOWMAN}"]},
    details={"rng": 3, "pool": None},
)


def write(path: Path, provenance: Provenance = ONE, table: Any = TABLE) -> Path:
    write_scores(path, table, provenance)
    return path


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    assert read_provenance(path) == ONE
    assert parquet.read_table(path).to_pydict() == TABLE
    assert read_provenance(write(path, table=pa.table(TABLE))) == ONE
    document = json.loads(parquet.read_schema(path).metadata[b"metapac"])
    assert document["model"] == ONE.model


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write(tmp_path / name).read_bytes() for name in ("a.parquet", "b.parquet"))
    assert first == second


def test_a_file_that_does_not_say_has_no_provenance(tmp_path: Path) -> None:
    plain, text, broken = (tmp_path / name for name in ("a.parquet", "a.csv", "b.parquet"))
    parquet.write_table(pa.table(TABLE), plain)
    text.write_text("task,score\n")
    broken.write_bytes(b"PAR1 and nothing else")
    for path in (plain, text, broken, tmp_path / "none.parquet", tmp_path):
        assert read_provenance(path) is None
    assert read_common_provenance([plain, text]) is None
    assert read_common_provenance([]) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("ProtoNet 1", "ProtoNet 2"), "was edited or damaged"),
        (lambda text: "{", "is not a valid metapac provenance file: its metadata is not JSON"),
        (lambda text: "[]", "is not a metapac provenance file"),
        (lambda text: text.replace('"schema": 1', '"schema": 7'), "has schema 7, .* Upgrade"),
    ],
)
def test_edited_provenance_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = write(tmp_path / "a.parquet")
    table = parquet.read_table(path)
    text = change(table.schema.metadata[b"metapac"].decode())
    parquet.write_table(table.replace_schema_metadata({"metapac": text}), path)
    with pytest.raises(BadArtefact, match=message):
        read_provenance(path)


SCORED = {
    "task": ["ohio", "ohio", "utah"],
    "label": ["cat", "dog", "cat"],
    "score": [0.9, 0.1, 0.4],
    "scores": [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]],
    "classes": [["cat", "dog"], ["cat", "dog"], ["owl", "cat"]],
}
COLUMNS = {"task": "task", "label": "label", "score": "score", "columns": "scores"}
NAMED = Provenance(model="ProtoNet", columns=COLUMNS | {"classes_column": "classes"})


def rewrite(path: Path, table: pa.Table, *, is_old: bool = False, **options: Any) -> Path:
    """Write a changed table with its metadata, as pyarrow does; ``is_old`` if 0.2.0 scored it."""
    if is_old:
        document = json.loads(table.schema.metadata[b"metapac"])
        body = {name: document[name] for name in ("model", "score", "columns", "details")}
        signed = json.dumps(artefact.sign(body, FORMAT))
        table = table.replace_schema_metadata({"metapac": signed})
    parquet.write_table(table, path, **options)
    return path


def replace_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    kind = table.schema.field(name)
    return table.set_column(table.column_names.index(name), kind, pa.array(values, kind.type))


@pytest.mark.parametrize("name", ["task", "label", "score", "scores", "classes"])
def test_another_value_in_any_column_is_noticed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "a.parquet", NAMED, SCORED)
    table = parquet.read_table(path)
    values = table.column(name).to_pylist()
    other = {"score": 0.3999999999999999, "scores": [0.6, 0.5], "classes": ["elk", "cat"]}
    values[2] = other.get(name, "other")
    rewrite(path, replace_column(table, name, values))
    with pytest.raises(BadArtefact, match=f"its '{name}' is not that of the 3 rows scored. Score"):
        read_common_provenance([path])
    write(path, NAMED, parquet.read_table(path))  # the remedy of the message
    assert read_common_provenance([path]) == NAMED


@pytest.mark.parametrize("rows", [[0, 1], [0, 1, 2, 2], [1, 0, 2]])
def test_other_rows_are_noticed(tmp_path: Path, rows: list[int]) -> None:
    path = write(tmp_path / "a.parquet", NAMED, SCORED)
    taken = parquet.read_table(path).take(rows)
    with pytest.raises(BadArtefact, match="rows scored. Score the tasks again. If you changed the"):
        read_common_provenance([rewrite(path, taken)])
    assert read_common_provenance([rewrite(path, taken.replace_schema_metadata(None))]) is None


def test_values_in_another_row_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table={"scores": [[0.1], [0.2, 0.3]]})
    moved = replace_column(parquet.read_table(path), "scores", [[0.1, 0.2], [0.3]])
    with pytest.raises(BadArtefact, match="its 'scores' is not that of the 2 rows scored"):
        read_common_provenance([rewrite(path, moved)])


def test_how_the_rows_are_stored_makes_no_difference(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", NAMED, SCORED)
    table = parquet.read_table(path)
    for copy in (table, table.drop_columns(["label"]), table.append_column("n", [[1, 2, 3]])):
        rewrite(path, copy, row_group_size=2, compression="none", use_dictionary=False)
        assert read_common_provenance([path]) == NAMED
    assert read_common_provenance([rewrite(path, table, is_old=True)]) == NAMED


@pytest.mark.parametrize("is_named", [True, False])
def test_a_score_above_that_of_its_label_is_noticed(tmp_path: Path, is_named: bool) -> None:
    """Also in tables of version 0.2.0, which have no checksums of their rows."""
    labels = [["cat", "dog", "cat"], [0, 1, 1]][not is_named]
    provenance = NAMED if is_named else Provenance(model="ProtoNet", columns=COLUMNS)
    path = write(tmp_path / "a.parquet", provenance, SCORED | {"label": labels})
    table = parquet.read_table(path)
    lower = replace_column(table, "score", [0.9, 0.1, 0.3999])  # lowered for rounding errors
    assert read_common_provenance([rewrite(path, lower, is_old=True)]) == provenance
    root = replace_column(table, "score", [0.9, 0.1, 0.4**0.5])
    with pytest.raises(
        BadArtefact, match="its 'score' is above the score of the label in 'scores'"
    ):
        read_common_provenance([rewrite(path, root, is_old=True)])


def test_damaged_rows_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", NAMED, SCORED)
    content, table = path.read_bytes(), parquet.read_table(path)
    start = parquet.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    path.write_bytes(content[:start] + bytes(40) + content[start + 40 :])
    with pytest.raises(BadArtefact, match="its rows cannot be read"):
        read_common_provenance([path])
    classes = [["cat", "dog"], ["cat"], ["owl", "cat"]]
    with pytest.raises(BadArtefact, match="its rows cannot be read"):
        read_common_provenance([rewrite(path, replace_column(table, "classes", classes))])


def test_files_of_different_models_are_told_apart(tmp_path: Path) -> None:
    first = write(tmp_path / "a.parquet")
    same = write(tmp_path / "b.parquet", Provenance(**{**vars(ONE), "details": {"rng": 4}}))
    assert read_common_provenance([first, same]) == ONE
    plain = tmp_path / "plain.parquet"
    parquet.write_table(pa.table(TABLE), plain)
    for change in ({"model": "ProtoNet 2"}, {"score": "margin"}, {"columns": {"task": "site"}}):
        other = write(tmp_path / "c.parquet", Provenance(**{**vars(ONE), **change}))
        message = (
            r"a\.parquet was scored by 'ProtoNet 1, 5 ways, 5 shots' \(probability\), and .*c\.parq"
        )
        with pytest.raises(InvalidInput, match=message):
            read_common_provenance([first, same, other])
    with pytest.raises(InvalidInput, match="by an unknown model"):
        read_common_provenance([first, plain])
    with pytest.raises(InvalidInput, match="by an unknown model"):
        read_common_provenance([plain, first])


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet")
    before = path.read_bytes()

    def fail(table: Any, file: Any, **options: Any) -> None:
        file.write(b"PAR1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "write_table", fail)
    with pytest.raises(OSError, match=r"No space left on device: .*a\.parquet"):
        write(path, Provenance(model="other"))
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_only_json_can_be_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(InvalidInput, match="provenance must hold only .* JSON can store"):
        write(path, Provenance(model="m", details={"rng": {1, 2}}))
    assert not [*tmp_path.iterdir()]
