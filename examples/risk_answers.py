"""A language model answers or abstains, over prompts: at most 5% are answered wrongly.

A prompt is a task, its questions are examples. A question is answered if the model's doubt is below
the threshold; the loss is 1 if it is answered and wrong, so it does not decrease with the
threshold. The error among the answers given would, and no threshold can be certified for it.
"""

from __future__ import annotations

import numpy as np

from metapac import Context, MetaRisk

PROMPTS, QUESTIONS, GRID = 200, 150, np.linspace(0, 1, 201)


def answers(prompts: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the model's doubt about its answer to each question, and whether it is wrong."""
    bias = np.repeat(rng.normal(0, 0.5, prompts), QUESTIONS)  # some prompts make it overconfident
    logit = rng.normal(1.5, 1.5, prompts * QUESTIONS)
    doubt = 1 / (1 + np.exp(logit))
    return doubt, rng.random(len(doubt)) < 1 / (1 + np.exp(logit + bias))


rng = np.random.default_rng(0)
prompt, question = np.repeat(np.arange(PROMPTS), QUESTIONS), np.tile(np.arange(QUESTIONS), PROMPTS)
doubt, wrong = answers(PROMPTS, rng)
promise = MetaRisk(epsilon=0.05, alpha=0.1, delta=0.05).calibrate(
    MetaRisk.missed_cost(doubt, wrong, GRID),
    prompt,
    GRID,
    question,
    context=Context(unit="prompt", example="question"),
)
print(promise)

doubt, wrong = answers(2000, rng)  # new prompts
left = promise.predict(doubt)  # to a person: doubts of at least the threshold
errors = (wrong & ~left).reshape(2000, -1).mean(axis=1)
print(f"{1 - left.mean():.1%} of the questions of new prompts are answered")
print(f"answered wrongly: {errors.mean():.1%} of all, {wrong[~left].mean():.1%} of those answered")
print(f"without abstaining, {wrong.mean():.1%} are wrong")
