"""One table of bad input for each public function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from metapac import InvalidInput


def assert_refused(words: str, call: Callable[..., Any], *values: Any, **options: Any) -> None:
    """Assert that a call is refused, and that the error names its parameter and these key words."""
    with pytest.raises(InvalidInput) as caught:
        call(*values, **options)
    text = " ".join([*caught.value.parameters, str(caught.value)])
    assert [word for word in words.split() if word not in text] == [], text
