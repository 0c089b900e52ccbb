"""Options of learners on vectors, which ``score`` and ``study`` share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from metapac import InvalidInput
from metapac.fewshot.cli.score import EmbeddingOptions
from metapac.fewshot.cli.vectors import VectorOptions, build_vector_learner
from tests.helpers.commands import metapac


@pytest.mark.parametrize(
    ("name", "options", "description"),
    [
        (None, {}, "prototypes (metric euclidean, temperature 1.0)"),
        ("prototypes", {"metric": "cosine"}, "prototypes (metric cosine, temperature 1.0)"),
        ("ridge", {"penalty": 3.0}, "ridge (penalty 3.0, temperature 1.0)"),
        ("logistic", {"penalty": 0.5}, "logistic (penalty 0.5)"),
    ],
)
def test_a_learner_has_the_parameters_given(
    name: str | None, options: dict[str, Any], description: str
) -> None:
    learner, described = build_vector_learner(name, VectorOptions(**options))
    assert described == description
    for key, value in options.items():
        assert getattr(learner, key) == value


def test_what_a_learner_does_not_take_is_refused() -> None:
    message = "temperature does not apply to learner='logistic', which takes penalty."
    with pytest.raises(InvalidInput, match=message):
        build_vector_learner("logistic", VectorOptions(temperature=2.0))
    with pytest.raises(InvalidInput, match="learner must be 'prototypes'"):
        build_vector_learner("knn", VectorOptions())


def test_both_commands_have_all_options() -> None:
    assert issubclass(EmbeddingOptions, VectorOptions)
    for command in ("score", "study"):
        text = metapac(command, "--help").output
        for field in fields(VectorOptions):
            assert f"--{field.name}" in text
