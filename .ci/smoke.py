"""The first steps of a new user, with the package that is installed and nothing optional."""

from __future__ import annotations

import doctest
import importlib.metadata
import importlib.resources
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import metapac


def check_package() -> None:
    """The installed package is complete, and knows its version."""
    assert "site-packages" in metapac.__file__
    assert importlib.metadata.version("metapac") == metapac.__version__
    assert (importlib.resources.files("metapac") / "py.typed").is_file()


def check_calibration(folder: Path) -> None:
    """A calibrated predictor makes the same sets after it was saved and loaded."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(200), 100)
    scores = rng.beta(8, 2, size=len(tasks))
    predictor = metapac.MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, tasks=tasks)
    predictor.save(folder / "promise.json")
    loaded = metapac.load(folder / "promise.json")
    assert str(loaded.promise_) == str(predictor.promise_)
    assert 0 < loaded.threshold_ == predictor.threshold_ < 1
    sets = loaded.predict_set(rng.random((5, 4)))
    assert metapac.label_lists(sets, classes=list("abcd"))
    assert metapac.set_sizes(sets).shape == (5,)


def check_examples() -> None:
    """The examples of the public names run, but for those that need pandas or an engine."""
    extras = {"EngineError", "Evaluation", "evaluate", "load_heart_sites", "make_site"}
    extras |= {"open_table", "read_provenance", "write_scores"}
    runner = doctest.DocTestRunner()
    for name in sorted({*metapac.__all__} - extras):
        for test in doctest.DocTestFinder().find(getattr(metapac, name), name):
            runner.run(test)
    assert not runner.failures, f"{runner.failures} examples failed"


def check_command_line() -> None:
    """Without its extra, the command line names the extra to install."""
    done = subprocess.run(
        [sys.executable, "-I", "-m", "metapac", "--help"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "pip install 'metapac[cli]'" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


if __name__ == "__main__":
    check_package()
    with tempfile.TemporaryDirectory() as folder:
        check_calibration(Path(folder))
    check_examples()
    check_command_line()
