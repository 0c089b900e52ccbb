"""MAPIE beside metapac on a real table, that of docs/howto/from-mapie.md.

The label is a respondent's age group, one of six, guessed from the other answers of the shipped
survey. The same model and scores for all. The 53 states are divided anew in each
split: 10 to train, 20 to calibrate, 23 new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from mapie.classification import SplitConformalClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metapac import MetaPS, load_heart_sites

LABEL, EPSILON, ALPHA, DELTA, SPLITS = "age_group", 0.1, 0.2, 0.05, 30


def make_sets(rng: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the name of each method, its sets, the labels and the states of new respondents."""
    sites = load_heart_sites(rng=rng)
    features = [name for name in sites.features if name != LABEL]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(sites.train[features], sites.train[LABEL].astype(int))
    known, new = sites.calibration, sites.new
    labels, states = new[LABEL].to_numpy().astype(int), new["state"]
    for score, last in (("lac", True), ("aps", True), ("aps", "randomized")):
        rival = SplitConformalClassifier(
            model, confidence_level=1 - EPSILON, conformity_score=score, prefit=True, random_state=0
        )
        rival.conformalize(known[features], known[LABEL].astype(int))
        options = {"include_last_label": last} if score == "aps" else {}
        _, sets = rival.predict_set(new[features], conformity_score_params=options)
        suffix = ", randomised" if last == "randomized" else ""
        yield f"MAPIE, {score.upper()}{suffix}", sets[:, :, 0], labels, states
    predictor = MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA)
    scores = model.predict_proba(known[features])
    truth = known[LABEL].to_numpy().astype(int)
    predictor.calibrate(scores, known["state"], truth, classes=model.classes_)
    yield "metapac", predictor.predict_set(model.predict_proba(new[features])), labels, states


def main() -> None:
    """Print the table: means over splits, and how often more than alpha of the states exceed."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for rng in range(SPLITS):
        for name, sets, labels, states in make_sets(rng):
            missed = ~sets[np.arange(len(labels)), labels]
            rates = np.array([missed[states == state].mean() for state in states.unique()])
            over, size = np.mean(rates > EPSILON), sets.sum(1).mean()
            found.setdefault(name, []).append((rates.mean(), over, over > ALPHA, size))
    print(f"| {SPLITS} splits | missed | states over {EPSILON:.0%} | splits over | mean size |")
    print("|---|---:|---:|---:|---:|")
    for name, rows in found.items():
        missed, over, broken, size = np.mean(rows, axis=0)
        print(f"| {name} | {missed:.1%} | {over:.0%} | {broken:.0%} | {size:.2f} |")


if __name__ == "__main__":
    main()
