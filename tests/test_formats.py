"""Files of every kind: they come back, old ones load, and damaged or forged ones are refused.

A forgery has the right checksum. No key can be asked for, so a forgery that does not contradict
itself is another promise; these tests forge what does.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import metapac as mp
from metapac import fewshot
from metapac.fewshot.offset import TaskOffset
from metapac.fewshot.scoring import Stored, read_stored
from metapac.provenance import Provenance, write_scores
from tests.helpers.forging import damage, mutate, read_or_refuse, sign

RNG = np.random.default_rng(0)
SCORES, NAMES = RNG.random((1200, 2)), [f"site {i}" for i in range(40)]
TASKS, Y = np.repeat(NAMES, 30), np.where(RNG.random(1200) < SCORES[:, 0], "cat", "dog")
TRUE = np.where(Y == "cat", SCORES[:, 0], SCORES[:, 1])
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2}
GOLDEN = Path(__file__).parent / "golden"
SCHEMA_FOLDER = Path(str(resources.files("metapac").joinpath("schemas")))
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in SCHEMA_FOLDER.glob("*.json")}


def _of(names: Sequence[str]) -> tuple[Any, Any]:
    kept = np.isin(TASKS, names)
    return TRUE[kept], TASKS[kept]


def save_one_of_each(folder: Path) -> None:
    classes, float32 = ["cat", "dog"], np.dtype("float32")
    about = mp.Context(model="a", trained_on=["x", 1], unit="hospital")
    whole = mp.MetaPS(**LEVELS).calibrate(SCORES, TASKS, Y, classes=classes, context=about)
    monitor, classes_of = mp.Monitor(whole), mp.MetaPS(**LEVELS, per_class=True, split="tight")
    monitor.add(TRUE**2, np.char.add("new ", TASKS), batch="2026-01")
    agreed = mp.Guarantee(**LEVELS, split="tight")
    saved: dict[str, Any] = {
        "MetaPS": whole,
        "per class": classes_of.set_params(on_infeasible="trivial").calibrate(
            SCORES, TASKS, Y, classes=classes
        ),
        "clusters": mp.MetaPS(**LEVELS).calibrate(TRUE, TASKS, clusters=TASKS),
        "few": mp.MetaPS(**LEVELS, split="tight", on_infeasible="trivial").calibrate([0.5], ["a"]),
        "PS": mp.PS(epsilon=0.2, delta=0.1).calibrate(TRUE),
        "MetaCP": fewshot.MetaCP(epsilon=0.4, delta=0.2).calibrate(TRUE, TASKS, np.zeros(40)),
        "site": mp.Site("\N{SNOWMAN}", agreed, (99,), ((0.25,),), float32),
        "monitor": monitor,
        "pilot": mp.explore(SCORES, TASKS, Y, classes=classes),
        "offset": TaskOffset(unlabelled=9, weights=(0.5,) * 13, classes=frozenset({"cat"})),
        "draw": (draw := mp.draw_tasks(NAMES, 30, rng=1)),
        "list": mp.MetaPS(**LEVELS, new_tasks=10).calibrate(
            *_of(draw.drawn), context=mp.Context(draw=draw)
        ),
    }
    for name, each in saved.items():
        each.save(folder / f"{name}.json")
    stored = Stored(scores=TRUE[:6], tasks=TASKS[:6], provenance={"rng": 0})
    stored.save(folder / "scores.safetensors")
    protonet = fewshot.ProtoNet(fewshot.MLP(3, width=4, rng=0))
    fewshot.save_weights(protonet, folder / "protonet.safetensors")
    fewshot.save_weights(
        fewshot.MAML(fewshot.MLP(3, width=4, rng=0), 2, steps=1), folder / "maml.safetensors"
    )
    provenance = Provenance(model="a", columns={"score": "score"}, details={"rng": 3})
    write_scores(folder / "a.parquet", {"score": TRUE}, provenance)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    save_one_of_each(folder)
    return folder


# Damaged and forged files.


def decide(promise: Any) -> list[Any]:
    """Return everything that a promise decides: levels, sets, columns, context."""
    names = ("threshold_", "thresholds_", "lambda_", "columns_")
    found = repr([getattr(promise, name, None) for name in names])
    return [promise.get_params(), promise.precision_, promise.context_, found]


def weigh(learner: Any) -> Any:
    return {name: tensor.tolist() for name, tensor in learner.module.state_dict().items()}


PROMISES = ["MetaPS", "per class", "clusters", "PS", "MetaCP"]
READERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {  # how to read a file, and what it says
    **{f"{kind}.json": (mp.load, decide) for kind in PROMISES},
    "site.json": (mp.read_site, lambda site: site),
    "pilot.json": (mp.read_pilot, lambda pilot: repr(pilot.to_dict())),
    "monitor.json": (mp.Monitor.load, lambda monitor: [monitor.course, monitor.terms]),
    "offset.json": (fewshot.load_offset, lambda offset: [offset, offset.classes, offset.fitted_on]),
    "scores.safetensors": (read_stored, lambda stored: stored.scores.tolist()),
    "protonet.safetensors": (fewshot.load_learner, weigh),
    "maml.safetensors": (fewshot.load_learner, weigh),
}
FUZZ = settings(max_examples=70, deadline=None, derandomize=True)


def rewrite(path: Path, change: Callable[[Any], Any]) -> bytes:
    """Return a file with another document, whose checksum is right."""
    if path.suffix == ".json":
        return sign(change(json.loads(path.read_text()))).encode()
    header, data = fewshot.tensors._split(path.read_bytes())
    document = json.loads(header.pop("__metadata__")["metapac"])
    packed = json.dumps({"__metadata__": {"metapac": sign(change(document))}, **header}).encode()
    return len(packed).to_bytes(8, "little") + packed + bytes(data)


@pytest.mark.parametrize("name", READERS)
@given(draw=st.data())
@FUZZ
def test_damaged_files_say_the_same_or_nothing(folder: Path, name: str, draw: Any) -> None:
    read, view = READERS[name]
    path = folder / f"damaged {name}"
    path.write_bytes(damage((folder / name).read_bytes(), draw))
    found = read_or_refuse(read, path)
    assert found is None or view(found) == view(read(folder / name))


@pytest.mark.parametrize("name", READERS)
@given(draw=st.data())
@FUZZ
def test_a_forged_file_is_refused_or_usable(folder: Path, name: str, draw: Any) -> None:
    read, view = READERS[name]
    path, again = folder / f"forged {name}", folder / f"again {name}"
    path.write_bytes(rewrite(folder / name, lambda document: mutate(document, draw)))
    found = read_or_refuse(read, path)
    if found is None:
        return
    if path.suffix == ".json":
        found.save(again)
        assert view(read(again)) == view(found)
        forged, kept = (json.loads(each.read_text()) for each in (path, again))
        for stated in ("threshold", "thresholds", "lambda"):
            assert forged.get(stated) == kept.get(stated)  # never another threshold
    else:
        assert view(found) == view(read(folder / name))


TWICE = {"by_class": [["cat", 0.1], ["cat", 0.2]]}
FORGERIES: list[tuple[str, str, Any, str]] = [  # file, place, value, and a word of the error
    *(("MetaPS", "precision", x, x) for x in ("int8", "float32")),
    ("MetaPS", "threshold", 0.9, "threshold"),
    ("per class", "thresholds", [0.0, 0.0], "thresholds"),
    ("MetaPS", "evidence", {}, "tasks"),
    ("MetaPS", "evidence.sizes", [1] * 40, "too few"),
    *(("MetaPS", "evidence.sizes", [x] * 40, "evidence|sizes") for x in ("60", 30.5, 10**9 + 1)),
    *(("MetaPS", "evidence.tasks", x, "once|shape|tasks|type")
      for x in (["a"] * 40, ["a"], [["a"]], [1, *NAMES[1:]])),
    *(("MetaPS", "evidence.thresholds", x, "thresholds|evidence|shape|falls")
      for x in ("x", [[0.5] * 12] * 40, [[10**400] * 29] * 40, [[*[0.5] * 28, 0.4]] * 40)),
    *(("MetaPS", "evidence.lowest", x, "lowest|range") for x in ([], [0.9])),
    *(("MetaPS", "evidence.ranges", [x] * 40, "between") for x in ([0.9, 0.1], [0.95, 1], [0, 0])),
    *(("clusters", "evidence.clusters.names", x, "cluster") for x in (["a"], ["a"] * 40)),
    ("clusters", "evidence.clusters.tasks", 39, "cluster"),
    ("MetaPS", "parameters", {"epsilon": 0.2}, "alpha"),
    ("MetaPS", "parameters.epsilon", 0.001, "too few"),
    ("MetaPS", "parameters.per_class", True, "classes"),
    *(("per class", "evidence.classes", x, "class") for x in ([], ["b", 1], [1, True], ["a", "a"])),
    ("per class", "parameters.epsilon", TWICE, "two values"),
    *(("MetaPS", "kind", x, "alpha|Oracle") for x in ("MetaCP", "Oracle")),
    *(("MetaPS", "schema", x, "schema") for x in (True, 3, "1")),
    *(("MetaPS", "columns", {one: "a", other: "a"}, "each meaning")
      for one, other in (("task", "score"), ("prediction", "y"))),
    ("MetaPS", "columns", {"columns": ["u"], "classes": ["a", "b"]}, "2 classes"),
    *(("MetaPS", "columns", {"classes": x}, "classes") for x in ([], ["1", 1])),
    *(("per class", "columns", {"classes": x}, "classes") for x in (["dog", "cat"], ["cat"])),
    ("MetaPS", "context", {"trained_on": ["site 3"]}, "share 1 task"),
    ("MetaPS", "sets", {"rows": 0, "sampled": False, "sizes": [9], "classes": [9, 0]}, "sets"),
    ("PS", "evidence.examples", 5, "too few"),
    ("PS", "threshold", "nan", "threshold"),
    ("MetaCP", "evidence.quantiles", ["inf"] * 40, "quantiles"),
    *(("site", "examples", x, "examples") for x in (["100"], [True], [-1], [1], [99, 99])),
    *(("site", "thresholds", x, "thresholds|float32")
      for x in ([], [["0.25"]], [[False]], [[0.5, 0.6]], [[0.1]])),
    ("site", "site", " a ", "name"),
    ("site", "model", None, "model"),
    *(("site", "range", x, "range|between") for x in ([], [0.9, 0.1])),
    *(("site", "levels", x, "levels") for x in ("0.1", [0.02])),
    *(("site", "classes", x, "classes") for x in ([], ["a", "b"])),
    ("site", "precision", "float128", "precision"),
    ("pilot", "tasks", ["a", "a"], "tasks"),
    ("pilot", "delta", 2.0, "delta"),
    ("pilot", "prevalence", [["cat", 2.0], ["dog", 0.5]], "shares|class"),
    *(("monitor", "tasks.0.missed", x, "misses|one count|tasks") for x in ([101], [1, 1], [-1])),
    ("monitor", "tasks.0.task", "new site 1", "occurs twice in a batch"),
    ("monitor", "watched.alpha", 1.0, "alpha"),
    ("monitor", "watched.classes", ["a", "b"], "one count for each class"),
    ("monitor", "watched.checksum", "sha256:0", "watched|checksum"),
]  # fmt: skip


def forge(path: Path, place: str, value: Any) -> bytes:
    """Return a file with one value replaced or added, and the right checksum."""

    def change(document: Any) -> Any:
        node, *keys = document, *place.split(".")
        for key in keys[:-1]:
            node = node[int(key) if isinstance(node, list) else key]
        node[keys[-1]] = value
        return document

    return rewrite(path, change)


def test_a_forgery_is_refused_in_one_line(folder: Path) -> None:
    # A checker that compared nothing would pass all of the above.
    other = mp.MetaPS(**LEVELS).calibrate(SCORES + 0.1, TASKS, Y, classes=["cat", "dog"])
    assert decide(other) != decide(mp.load(folder / "MetaPS.json"))
    for name, place, value, word in FORGERIES:
        path = folder / f"forgery {name}.json"
        path.write_bytes(forge(folder / f"{name}.json", place, value))
        with pytest.raises(mp.BadArtefact, match=word) as caught:
            READERS[f"{name}.json"][0](path)
        assert str(path) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_files_of_another_kind_are_refused(folder: Path) -> None:
    for read, other in (
        (mp.load, "site"),
        (mp.read_site, "PS"),
        (mp.read_pilot, "PS"),
        (mp.Monitor.load, "PS"),
    ):
        with pytest.raises(mp.BadArtefact, match="is not a metapac .* file"):
            read(folder / f"{other}.json")
    with pytest.raises(FileNotFoundError):
        mp.load(folder / "nothing.json")
    forged = folder / "levels.json"
    forged.write_bytes(forge(folder / "monitor.json", "watched.alpha", 0.5))  # no alarm for long
    with pytest.raises(mp.BadArtefact, match="other levels"):
        mp.Monitor.load(forged, mp.load(folder / "MetaPS.json"))
    forged.write_bytes(forge(folder / "monitor.json", "watched.promise", "An older sentence."))
    assert len(mp.Monitor.load(forged, mp.load(folder / "MetaPS.json")).course) == 40


# What was saved comes back; files of older and newer versions.


def test_what_was_saved_comes_back_without_importing_anything_first(folder: Path) -> None:
    paths = [folder / f"{name}.json" for name in (*PROMISES, "few")]
    code = "import sys, metapac; print(*(metapac.load(p).explain() for p in sys.argv[1:]), sep='|')"
    code += "; assert 'jsonschema' not in sys.modules"
    command = [sys.executable, "-c", code, *map(str, paths)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.rstrip("\n").split("|") == [mp.load(path).explain() for path in paths]
    for path in paths:
        assert json.loads(path.read_text())["promise"] == mp.load(path).promise_
        assert "Infinity" not in path.read_text()


def test_numbers_names_and_precision_come_back(tmp_path: Path) -> None:
    path, few = tmp_path / "p.json", mp.MetaPS(**LEVELS, on_infeasible="trivial")
    few.calibrate([0.5, 0.6], [2**63 + 1, 7]).set_params(on_infeasible="raise").save(path)
    assert mp.load(path).tasks_.tolist() == [2**63 + 1, 7]
    assert mp.load(path).threshold_ == -math.inf  # although calibrating would raise
    single = mp.PS(epsilon=0.1, delta=0.1).calibrate(np.full(50, 0.1, dtype=np.float32))
    single.save(path)
    assert mp.load(path).precision_ == np.float32
    assert mp.load(path).predict_set([0.1]).all()
    odd = mp.MetaPS(epsilon=Fraction(1, 5), alpha=np.float32(0.25), delta=0.2)  # type: ignore[arg-type]
    odd.calibrate(TRUE, TASKS).save(path)
    assert mp.load(path).threshold_ == odd.threshold_
    with pytest.raises(
        mp.InvalidInput, match=r"tasks must be strings or integers to be saved, got \('"
    ):
        few.set_params(on_infeasible="trivial").calibrate([0.5], [("ohio", 2020)]).save(path)
    assert mp.load(path).threshold_ == odd.threshold_  # a save that fails leaves the file
    with pytest.raises(FileNotFoundError, match="folder does not exist; create it .*nowhere"):
        odd.save(tmp_path / "nowhere" / "p.json")


def test_files_of_the_first_version_are_read(tmp_path: Path) -> None:
    found = {}
    for kind in ("MetaPS", "PS", "MetaCP", "site"):
        read: Any = mp.read_site if kind == "site" else mp.load
        old = read(GOLDEN / "0.1.0" / f"{kind}.json")
        old.save(tmp_path / "new.json")
        name = {"MetaCP": "lambda_", "site": "thresholds"}.get(kind, "threshold_")
        found[kind] = {getattr(old, name), getattr(read(tmp_path / "new.json"), name)}
    assert found == {"MetaPS": {0.04}, "PS": {0.08}, "MetaCP": {-0.06}, "site": {((0.194,),)}}


def test_parts_that_early_and_later_files_lack_or_have(folder: Path) -> None:
    path, whole = folder / "other.json", mp.load(folder / "MetaPS.json")
    document = json.loads((folder / "MetaPS.json").read_text())
    early = {k: v for k, v in document["evidence"].items() if k not in ("lowest", "highest")}
    for changes in (
        {"evidence": early},
        {"sets": None} if document.get("sets") is None else {},
        {"note": {"of": "a later version"}, "columns": document["columns"] | {"weight": "w"}},
        {"promise": "The same, in other words.", "metapac": "0.2.0"},  # computed, not read
    ):
        path.write_text(sign(document | changes))
        assert mp.load(path).threshold_ == whole.threshold_
        assert mp.load(path).promise_ == whole.promise_
    path.write_text(sign({k: v for k, v in document.items() if k != "sets"}))
    mp.load(path).predict_set(SCORES[:, ::-1])  # nothing to compare with


# The published schemas describe the files that metapac writes, and refuse forged ones.


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


def find_schema(document: dict[str, Any]) -> str:
    return str(document["format"]).removeprefix("metapac ")


def test_old_and_new_files_satisfy_their_schemas(tmp_path: Path) -> None:
    save_one_of_each(tmp_path)
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    old, kinds = GOLDEN / "0.2.0", set()
    files = [*old.rglob("*.json"), *old.rglob("*.safetensors"), old / "scored.parquet"]
    for document in map(read_document, [*files, *tmp_path.iterdir()]):
        kinds.add(find_schema(document))
        jsonschema.validate(document, SCHEMAS[find_schema(document)])
        if "architecture" in document:
            jsonschema.validate(document["architecture"], SCHEMAS["architecture"])
    assert kinds == SCHEMAS.keys() - {"architecture", "learner"}  # a reproduction writes a learner


FORGED_FILES_DO_NOT: list[Any] = [
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
]


def test_forged_files_do_not() -> None:
    for file, changes in FORGED_FILES_DO_NOT:
        document = read_document(GOLDEN / "0.2.0" / file)
        validator = jsonschema.Draft202012Validator(SCHEMAS[find_schema(document)])
        assert validator.is_valid(document)
        assert not validator.is_valid(document | changes)
