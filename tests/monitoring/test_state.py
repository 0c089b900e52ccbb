"""State files: damaged, forged, of another kind, in use."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metapac import BadArtefact, MetaPS, Monitor, artefact
from metapac.monitoring import FORMAT
from tests.monitoring.conftest import draw


@pytest.fixture(scope="module")
def document(promise: MetaPS, by_class: MetaPS, tmp_path_factory: Any) -> dict[str, Any]:
    """A state file of each kind, as JSON."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("states")
    documents = {}
    for name, each in (("all", promise), ("by class", by_class)):
        monitor = Monitor(each)
        labels = np.tile(["no", "yes"], 100) if name == "by class" else None
        monitor.add(*draw(rng, ["a", "b"]), labels, batch="2026-01")
        monitor.save(folder / f"{name}.json")
        documents[name] = json.loads((folder / f"{name}.json").read_text())
    return documents


def write(path: Path, document: dict[str, Any]) -> Path:
    """Write a document with the right checksum."""
    body = {k: v for k, v in document.items() if k != "checksum"}
    path.write_text(json.dumps(body | {"checksum": artefact.checksum(body)}))
    return path


def complaint(path: Path) -> str | None:
    """Return why a file is bad; None if it is not."""
    try:
        Monitor.load(path)
    except BadArtefact as error:
        return str(error)
    return None


def test_the_format(document: dict[str, Any], tmp_path: Path) -> None:
    for each in document.values():
        assert [*each] == ["format", "schema", "metapac", "watched", "tasks", "checksum"]
        assert (each["format"], each["schema"]) == ("metapac monitor", 1)
        Monitor.load(write(tmp_path / "m.json", each))


def test_any_change_of_a_byte_is_noticed(document: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "m.json", document["all"])
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(len(content), size=200).tolist():
        changed = bytearray(content)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        message = complaint(path)
        if message is None:  # a blank that JSON ignores
            assert json.loads(changed) == document["all"]
        else:
            assert str(path) in message
    for size in (0, 1, len(content) // 2, len(content) - 2):
        path.write_bytes(content[:size])
        with pytest.raises(BadArtefact):
            Monitor.load(path)


FORGERIES: list[tuple[str, Any]] = [
    ("more misses than examples", lambda d: d["tasks"][0].update(missed=[101])),
    ("one count for each class", lambda d: d["tasks"][0].update(missed=[1, 1])),
    ("occurs twice in a batch", lambda d: d["tasks"].append(d["tasks"][0])),
    ("too few examples", lambda d: d["tasks"][0].update(examples=[0], missed=[0])),
    ("tasks cannot be", lambda d: d["tasks"][0].update(missed=[-1])),
    ("tasks cannot be", lambda d: d["tasks"][0].update(task=1.5)),
    ("alpha", lambda d: d["watched"].update(alpha=1.0)),
    ("false_alarm", lambda d: d["watched"].update(false_alarm=0)),
    ("watched", lambda d: d["watched"].update(delta="none")),
    ("name the same classes", lambda d: d["watched"].update(epsilon={"by_class": [["a", 0.1]]})),
    ("one count for each class", lambda d: d["watched"].update(classes=["a", "b"])),
    ("watched", lambda d: d["watched"].update(extra=1)),
    ("watched", lambda d: d["watched"].update(checksum="sha256:0")),
    ("Upgrade metapac", lambda d: d.update(schema=2)),
    ("not a metapac monitor file", lambda d: d.update(format="metapac promise")),
]


@pytest.mark.parametrize(("message", "forge"), FORGERIES)
def test_forgeries_that_contradict_themselves_are_refused(
    document: dict[str, Any], tmp_path: Path, message: str, forge: Any
) -> None:
    forged = copy.deepcopy(document["all"])
    forge(forged)
    with pytest.raises(BadArtefact, match=message):
        Monitor.load(write(tmp_path / "m.json", forged))


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_odd_values_never_cause_another_error(
    document: dict[str, Any], tmp_path: Path, data: st.DataObject
) -> None:
    forged = copy.deepcopy(document[data.draw(st.sampled_from(["all", "by class"]))])
    node: Any = forged
    while True:
        key = data.draw(st.sampled_from([*node] if isinstance(node, dict) else [*range(len(node))]))
        deeper = isinstance(node[key], dict | list) and len(node[key]) > 0
        if not deeper or data.draw(st.booleans()):
            break
        node = node[key]
    odd = st.sampled_from([None, True, -1, 0, 0.5, 1e300, "", "x", [], [1, 2], {}, {"a": 1}])
    node[key] = data.draw(odd)
    path = write(tmp_path / "m.json", forged)
    message = complaint(path)
    if message is None:
        assert np.isfinite(Monitor.load(path).wealth)
        assert Monitor.load(path).sentence()
    else:
        assert "\n" not in message


def test_levels_that_the_promise_does_not_have(
    promise: MetaPS, document: dict[str, Any], tmp_path: Path
) -> None:
    forged = copy.deepcopy(document["all"])
    forged["watched"]["alpha"] = 0.5  # no alarm would come for long
    with pytest.raises(BadArtefact, match="states other levels than the promise"):
        Monitor.load(write(tmp_path / "m.json", forged), promise)


def test_the_words_of_a_promise_may_change(
    promise: MetaPS, document: dict[str, Any], tmp_path: Path
) -> None:
    older = copy.deepcopy(document["all"])
    older["watched"] |= {"promise": "An older sentence.", "unit": "ward"}
    assert len(Monitor.load(write(tmp_path / "m.json", older), promise).course) == 2


def test_the_remedy_of_a_bad_file() -> None:
    assert "start anew with another file" in FORMAT.remedy
