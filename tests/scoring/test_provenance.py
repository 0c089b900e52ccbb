"""Provenance stays with a table of scores, and tells models apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from metapac import BadArtefact, artefact
from metapac.provenance import (
    FORMAT,
    Provenance,
    read_common_provenance,
    read_provenance,
    write_scores,
)
from tests.helpers.refusals import assert_refused

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
    content = path.read_bytes()
    assert read_provenance(path) == ONE
    assert parquet.read_table(path).to_pydict() == TABLE
    assert json.loads(parquet.read_schema(path).metadata[b"metapac"])["model"] == ONE.model
    assert write(path).read_bytes() == content
    assert read_provenance(write(path, table=pa.table(TABLE))) == ONE


def test_a_file_that_does_not_say_has_no_provenance(tmp_path: Path) -> None:
    plain, text, broken = (tmp_path / name for name in ("a.parquet", "a.csv", "b.parquet"))
    parquet.write_table(pa.table(TABLE), plain)
    text.write_text("task,score\n")
    broken.write_bytes(b"PAR1 and nothing else")
    for path in (plain, text, broken, tmp_path / "none.parquet", tmp_path):
        assert read_provenance(path) is None
    assert read_common_provenance([plain, text]) is None
    assert read_common_provenance([]) is None


def test_edited_provenance_is_refused(tmp_path: Path) -> None:
    table = parquet.read_table(write(tmp_path / "a.parquet"))
    text = table.schema.metadata[b"metapac"].decode()
    for edited, message in (
        (text.replace("ProtoNet 1", "ProtoNet 2"), "was edited or damaged"),
        ("{", "is not a valid metapac provenance file"),
        ("[]", "is not a metapac provenance file"),
        (text.replace('"schema": 1', '"schema": 7'), "has schema 7"),
    ):
        changed = table.replace_schema_metadata({"metapac": edited})
        parquet.write_table(changed, tmp_path / "a.parquet")
        with pytest.raises(BadArtefact, match=message):
            read_provenance(tmp_path / "a.parquet")


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


def test_other_rows_and_other_values_are_noticed(tmp_path: Path) -> None:
    other = {"task": "other", "label": "other", "score": 0.3999999999999999}
    other |= {"scores": [0.6, 0.5], "classes": ["elk", "cat"]}
    path = write(tmp_path / "a.parquet", NAMED, SCORED)
    table = parquet.read_table(path)
    for name, value in other.items():
        values = [*table.column(name).to_pylist()[:2], value]
        rewrite(path, replace_column(table, name, values))
        with pytest.raises(BadArtefact, match=f"its '{name}' is not that of the 3 rows scored"):
            read_common_provenance([path])
    write(path, NAMED, parquet.read_table(path))  # the remedy of the message
    assert read_common_provenance([path]) == NAMED
    for rows in ([0, 1], [0, 1, 2, 2], [1, 0, 2]):
        with pytest.raises(BadArtefact, match="rows scored"):
            read_common_provenance([rewrite(path, table.take(rows))])
    bare = table.take(rows).replace_schema_metadata(None)
    assert read_common_provenance([rewrite(path, bare)]) is None
    write(path, table={"scores": [[0.1], [0.2, 0.3]]})
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


def test_a_score_above_that_of_its_label_is_noticed(tmp_path: Path) -> None:
    """Also in tables of version 0.2.0, which have no checksums of their rows."""
    unnamed = Provenance(model="ProtoNet", columns=COLUMNS)
    for provenance, labels in ((NAMED, ["cat", "dog", "cat"]), (unnamed, [0, 1, 1])):
        path = write(tmp_path / "a.parquet", provenance, SCORED | {"label": labels})
        table = parquet.read_table(path)
        lower = replace_column(table, "score", [0.9, 0.1, 0.3999])  # lowered for rounding errors
        assert read_common_provenance([rewrite(path, lower, is_old=True)]) == provenance
        root = replace_column(table, "score", [0.9, 0.1, 0.4**0.5])
        with pytest.raises(BadArtefact, match="its 'score' is above the score of the label"):
            read_common_provenance([rewrite(path, root, is_old=True)])


def test_files_of_different_models_are_told_apart(tmp_path: Path) -> None:
    first, plain = write(tmp_path / "a.parquet"), tmp_path / "plain.parquet"
    same = write(tmp_path / "b.parquet", replace(ONE, details={"rng": 4}))
    assert read_common_provenance([first, same]) == ONE
    for other in (
        replace(ONE, model="ProtoNet 2"),
        replace(ONE, score="margin"),
        replace(ONE, columns={"task": "site"}),
    ):
        files = [first, same, write(tmp_path / "c.parquet", other)]
        assert_refused("a.parquet ProtoNet 1 c.parquet", read_common_provenance, files)
    parquet.write_table(pa.table(TABLE), plain)
    for files in ([first, plain], [plain, first]):
        assert_refused("unknown model", read_common_provenance, files)
