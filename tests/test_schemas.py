"""The published schemas describe the files that metapac writes, and refuse forged ones."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from metapac import PS, Context, Guarantee, MetaPS, Monitor, Site
from metapac.fewshot import MAML, MLP, MetaCP, ProtoNet, save_weights
from metapac.fewshot.scoring import Stored
from metapac.provenance import Provenance, write_scores
from tests.helpers.tables import explore_table

FOLDER = Path(str(resources.files("metapac").joinpath("schemas")))
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
GOLDEN = Path(__file__).parent / "golden" / "0.2.0"


def read_document(path: Path) -> dict[str, Any]:
    """Return the document of a file of any kind."""
    if path.suffix == ".parquet":
        document = json.loads(parquet.read_schema(path).metadata[b"metapac"])
    elif path.suffix == ".safetensors":
        content = path.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        document = json.loads(header["__metadata__"]["metapac"])
    else:
        document = json.loads(path.read_text("utf-8"))
    assert isinstance(document, dict)
    return document


def validate(path: Path) -> str:
    """Raise unless a file satisfies the schema of its format; return the name of the schema."""
    document = read_document(path)
    name = str(document["format"]).removeprefix("metapac ")
    jsonschema.validate(document, SCHEMAS[name])
    if name == "weights":
        jsonschema.validate(document["architecture"], SCHEMAS["architecture"])
    return name


def write_one_of_each(folder: Path) -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random((1200, 2)), np.repeat([f"site {i}" for i in range(40)], 30)
    y = np.where(rng.random(1200) < scores[:, 0], "cat", "dog")
    true = np.where(y == "cat", scores[:, 0], scores[:, 1])
    float32 = np.dtype("float32")
    levels: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2}
    by_class = MetaPS(**levels, per_class=True, split="tight", on_infeasible="trivial")
    context = Context(model="a", trained_on=["x", 1], unit="hospital")
    whole = MetaPS(**levels).calibrate(scores, tasks, y, classes=["cat", "dog"], context=context)
    by_class.calibrate(scores, tasks, y, classes=["cat", "dog"])
    monitor = Monitor(whole)
    monitor.add(true**2, np.char.add("new ", tasks), batch="2026-01")
    frame = pd.DataFrame({"site": tasks, "y": y, "p_cat": scores[:, 0], "p_dog": scores[:, 1]})
    written: dict[str, Any] = {
        "whole": whole,
        "by_class": by_class,
        "few": MetaPS(**levels, split="tight", on_infeasible="trivial").calibrate([0.5], ["a"]),
        "ps": PS(epsilon=0.2, delta=0.1).calibrate(true),
        "meta_cp": MetaCP(epsilon=0.4, delta=0.2).calibrate(true, tasks, np.zeros(40)),
        "site": Site(
            "\N{SNOWMAN}", Guarantee(**levels, split="tight"), (99,), ((0.25,),), float32
        ),
        "monitor": monitor,
        "pilot": explore_table(frame, task="site", label="y"),
    }  # fmt: skip
    for name, each in written.items():
        each.save(folder / f"{name}.json")
    Stored(scores=true, tasks=tasks, provenance={"rng": 0}).save(folder / "a.safetensors")
    save_weights(ProtoNet(MLP(3, width=4, rng=0)), folder / "protonet.safetensors")
    save_weights(MAML(MLP(3, width=4, rng=0), 2, steps=1), folder / "maml.safetensors")
    provenance = Provenance(model="a", columns={"score": "score"}, details={"rng": 3})
    write_scores(folder / "a.parquet", {"score": true}, provenance)


def test_schemas_are_valid() -> None:
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_old_and_new_files_satisfy_their_schemas(tmp_path: Path) -> None:
    write_one_of_each(tmp_path)
    files = [*tmp_path.iterdir(), *GOLDEN.rglob("*.json"), *GOLDEN.rglob("*.safetensors")]
    kinds = {validate(path) for path in [*files, GOLDEN / "scored.parquet"]}
    assert kinds == SCHEMAS.keys() - {"architecture", "learner"}  # a reproduction writes a learner


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("joint.json", {"precision": "int8"}),
        ("joint.json", {"threshold": "0.5"}),
        ("joint.json", {"evidence": {"tasks": [], "sizes": [], "thresholds": []}}),
        ("region_0.json", {"site": " a "}),
        ("region_0.json", {"examples": [-1]}),
        ("region_0.json", {"thresholds": [[True]]}),
        ("pilot.json", {"tasks": ["a", "a"]}),
        ("monitor.json", {"tasks": [{"task": 1.5}]}),
        ("run/run.json", {"accuracy": 2}),
        ("protonet.safetensors", {"architecture": {"class": "ProtoNet"}}),
        ("scored.parquet", {"columns": {"task": 5}}),
    ],
)
def test_forged_files_do_not(file: str, changes: dict[str, Any]) -> None:
    document = read_document(GOLDEN / file)
    schema = SCHEMAS[str(document["format"]).removeprefix("metapac ")]
    assert jsonschema.Draft202012Validator(schema).is_valid(document)
    assert not jsonschema.Draft202012Validator(schema).is_valid(document | changes)


def test_reading_needs_no_schema() -> None:
    code = (
        "import pathlib, sys, metapac\n"
        "metapac.load(sys.argv[1])\n"
        "assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, GOLDEN / "joint.json"], check=True)
