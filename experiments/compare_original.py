"""Run the constructor of the published research code on our scores, and compare thresholds.

git clone https://github.com/sangdon/meta-pac-ps
python experiments/compare_original.py meta-pac-ps

That code has no licence, and nothing of it is copied here: it is imported from your checkout. It
searches a grid of thresholds, so that its threshold should be the one of our even split, rounded
down to the grid. The step is coarser than its own of 1e-7, which would take hours. The outcome is
printed and stored for the results page; the exit status is 1 if a threshold differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from metapac import Guarantee, MetaPS
from metapac._common import Array
from metapac._text import format_table
from metapac.fewshot import ClassPool, PrototypeLearner, glyphs, score_tasks
from metapac.fewshot.reproduce.demos import fit_logistic
from metapac.heart_sites import read_sample

STEP = 1e-4
STORED = Path(__file__).parent / "original.json"
SOURCE = Path("uncertainty") / "meta_pac_ps.py"
Constructor = Callable[[Array, Guarantee, float], float]  # scores (tasks, n), levels, step


@dataclass(frozen=True)
class Setting:
    """Scores of true labels, a row for each calibration task, and the levels to certify."""

    name: str
    scores: Array
    guarantee: Guarantee


@dataclass(frozen=True)
class Comparison:
    """The thresholds of the research code and of our even split in one setting."""

    setting: str
    tasks: int
    examples: int
    epsilon: float
    alpha: float
    delta: float
    original: float
    even: float
    rounded_down: float
    equal: bool


def make_settings() -> Iterator[Setting]:
    """Yield five settings: the survey by state, and characters classified by their pixels."""
    survey = score_survey()
    for epsilon in (0.05, 0.1):
        levels = Guarantee(epsilon=epsilon, alpha=0.2, delta=0.05)
        yield Setting("heart survey by state", survey, levels)
    x, y, _ = glyphs(characters=80)
    pool = ClassPool(x.reshape(len(x), -1) / 255, y)
    for ways, shots, queries, epsilon in ((5, 5, 50, 0.1), (5, 1, 15, 0.1), (10, 5, 30, 0.05)):
        tasks = pool.tasks(300, ways=ways, shots=shots, queries=queries, rng=0)
        scores, _ = score_tasks(PrototypeLearner(temperature=20), tasks)
        levels = Guarantee(epsilon=epsilon, alpha=0.1, delta=1e-5)
        yield Setting(f"glyphs, {ways} ways, {shots}-shot", scores.reshape(300, -1), levels)


def score_survey() -> Array:
    """Return probabilities of the true labels in 43 states, by a model trained on ten others."""
    sample = read_sample()
    train, known = np.split(np.random.default_rng(0).permutation(sample.states), [10])
    rows = sample.find_rows(train)
    predict = fit_logistic(sample.x[rows], sample.y[rows])
    by_state = [sample.find_rows(np.array([state])) for state in known]
    count = min(map(len, by_state))
    rows = np.concatenate([each[:count] for each in by_state])
    return predict(sample.x[rows])[np.arange(len(rows)), sample.y[rows]].reshape(-1, count)


def load_constructor(checkout: Path) -> Constructor:
    """Return the research code's own constructor as a function of scores."""
    import torch

    sys.path.insert(0, str(checkout))
    networks = ModuleType("model")  # without its __init__, whose networks need torchvision
    networks.__path__ = [str(checkout / "model")]
    sys.modules["model"] = networks
    uncertainty = importlib.import_module("uncertainty")
    predictor = importlib.import_module("model.pred_set")

    class Given(torch.nn.Module):
        """A classifier whose probabilities are its inputs."""

        def forward(self, x: Any) -> dict[str, Any]:
            return {"ph": x}

    def construct(scores: Array, g: Guarantee, step: float) -> float:
        remaining = iter(torch.as_tensor(scores))

        class NextTask:
            """A data loader that gives another task each time it is read, as theirs does."""

            def __iter__(self) -> Iterator[Any]:
                p = next(remaining)
                yield torch.stack([p, 1 - p], dim=1), torch.zeros(len(p), dtype=torch.long)

        options = {"T_step": step, "T_end": np.inf, "eps_tol": 1.25, "bnd_type": "direct"}
        levels = {"eps": g.epsilon, "alpha": g.alpha, "delta": g.delta}
        tasks, examples = scores.shape
        sizes = {"n_datasets": tasks, "n_ways": 1, "n_shots_cal": examples}
        model = predictor.PredSetCls(Given())
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            files = {"snapshot_root": folder, "exp_name": "run", "rerun": True, "device": "cpu"}
            constructor = uncertainty.PredSetConstructor_meta(
                model, SimpleNamespace(**options, **files)
            )
            constructor.train(NextTask(), SimpleNamespace(**levels, **sizes))
        return math.exp(-model.T.item())

    return construct


def compare(setting: Setting, construct: Constructor, step: float = STEP) -> Comparison:
    """Return both thresholds; they are equal if they are on the same step of the grid."""
    g, (tasks, examples) = setting.guarantee, setting.scores.shape
    method = MetaPS(epsilon=g.epsilon, alpha=g.alpha, delta=g.delta, split="even")
    method.calibrate(setting.scores.ravel(), np.arange(tasks).repeat(examples))
    even = float(method.threshold_)
    original, number = construct(setting.scores, g, step), math.floor(even / step)
    return Comparison(
        setting.name,
        tasks,
        examples,
        g.miss_rate,
        g.alpha,
        g.failure_probability,
        original=original,
        even=even,
        rounded_down=number * step,
        equal=round(original / step) == number,
    )


def describe(found: Comparison) -> dict[str, str]:
    """Return the row of a comparison in a table."""
    thresholds = {
        "research code": found.original,
        "ours, even": found.even,
        "rounded down": found.rounded_down,
    }
    setting = {"setting": found.setting, "epsilon": f"{found.epsilon:g}"}
    equal = {"equal": "yes" if found.equal else "NO"}
    return setting | {name: f"{value:.6f}" for name, value in thresholds.items()} | equal


def read_outcome() -> tuple[float, list[Comparison]]:
    """Return the step of the grid and the stored comparisons."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return stored["step"], [Comparison(**each) for each in stored["settings"]]


def main(words: Sequence[str] | None = None) -> int:
    """Compare all settings, print and store the outcome."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="folder of a clone of sangdon/meta-pac-ps")
    checkout = parser.parse_args(words).checkout
    construct = load_constructor(checkout)
    found = [compare(setting, construct) for setting in make_settings()]
    print(format_table([describe(each) for each in found]))
    checksum = hashlib.sha256((checkout / SOURCE).read_bytes()).hexdigest()
    facts = {"step": STEP, "source": f"{SOURCE}, sha256:{checksum}"}
    outcome = facts | {"settings": [asdict(each) for each in found]}
    STORED.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    return 0 if all(each.equal for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
