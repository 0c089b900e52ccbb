"""Evidence in a promise file. Damaged files: tests/test_formats.py."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import Guarantee, InvalidInput
from metapac.evidence import collect_evidence, decode_evidence, encode_evidence


def test_evidence_of_another_number_of_levels_is_refused() -> None:
    scores, tasks = np.random.default_rng(0).random(2400), np.repeat(np.arange(40), 60)
    result = collect_evidence(Guarantee(epsilon=0.2, alpha=0.3, delta=0.1), scores, tasks)
    body = encode_evidence(result)
    again = decode_evidence(body, 13, result.precision)
    np.testing.assert_array_equal(again.thresholds, result.thresholds)
    assert again.lowest == result.lowest
    with pytest.raises(InvalidInput, match=r"evidence.thresholds must have shape \(40, 1\), by"):
        decode_evidence(body, 1, result.precision)
