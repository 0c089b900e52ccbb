"""A language model answers multiple-choice questions of new subjects, or abstains.

The logs are simulated, in the format of ``lm_eval --log_samples``. A subject is a task: the
model is better at some subjects than at others.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from metapac import MetaPS, answers
from metapac.fewshot import read_samples

rng = np.random.default_rng(0)
EPSILON = 0.1


def fabricate_question(number: int, skill: float) -> dict[str, Any]:
    """Return a question with three to five choices, as the harness logs it."""
    count = int(rng.integers(3, 6))
    label = int(rng.integers(count))
    log_likelihoods = rng.normal(-8, 1, count)
    log_likelihoods[label] += skill
    return {
        "doc_id": number,
        "doc": {"question": f"Question {number}?"},
        "target": str(label),
        "arguments": {
            f"gen_args_{i}": {"arg_0": f"Question {number}?\nAnswer:", "arg_1": f" choice {i}"}
            for i in range(count)
        },
        "filtered_resps": [[str(value), "False"] for value in log_likelihoods.tolist()],
        "acc": float(np.argmax(log_likelihoods) == label),
    }


with tempfile.TemporaryDirectory() as folder:
    for subject in range(140):
        skill = rng.normal(2.5, 0.5)
        lines = [json.dumps(fabricate_question(i, skill)) for i in range(80)]
        kind = "calibration" if subject < 100 else "new"
        path = Path(folder, kind, f"samples_subject{subject}_2026-01-31T12-00-00.jsonl")
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines))
    calibration = read_samples(Path(folder, "calibration"))
    new = read_samples(Path(folder, "new"))

predictor = MetaPS(epsilon=EPSILON, alpha=0.1, delta=0.05)
predictor.calibrate(calibration.true_scores, calibration.tasks)
print(predictor)

sets = new.predict_sets(predictor)
found = answers(sets)
errors = found.count_errors(new.labels)
guess = [int(np.argmax(scores)) for scores in new.scores]
print(f"without abstaining, {np.mean(new.labels != guess):.1%} of all answers are wrong")
print(f"{found.share:.1%} of {len(new)} questions answered")
print(f"wrong: {errors.of_all:.1%} of all questions, {errors.of_answered:.1%} of those answered")

within = 0
for subject in np.unique(new.tasks):
    here = np.flatnonzero(new.tasks == subject)
    wrong = answers([sets[i] for i in here]).count_errors(new.labels[here])
    within += wrong.of_all <= EPSILON
print(f"on {within} of {len(np.unique(new.tasks))} new subjects at most {EPSILON:.0%} of all wrong")
