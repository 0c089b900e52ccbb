"""The random generators of many items at once, with the numbers of those of `spawn_rng`.

NumPy hashes a seed and the number of an item to the state of a generator, one item at a time. Its
`SeedSequence` fixes the hash for good; here the same steps are taken for all items together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import DTypeLike, NDArray

from metapac.tasks.seeds import spawn_rng

Words = NDArray[np.uint32]

_POOL = 4  # words that all others are mixed into
_WORD = 2**32
_SHIFT = np.uint32(16)
# Start and factor of the constants that words are multiplied by, when hashing and when reading.
_HASH, _READ = (0x43B0D7E5, 0x931E8875), (0x8B51F9DD, 0x58F38DED)
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)


def spawn_rngs(seed: np.random.SeedSequence, count: int) -> list[np.random.Generator]:
    """Return the random generators of the first items of a sequence.

    Parameters
    ----------
    seed : numpy.random.SeedSequence
        Seed of the sequence.
    count : int
        Number of items.

    Returns
    -------
    list of numpy.random.Generator
        For each i below ``count``, one that draws the numbers of ``spawn_rng(seed, i)``. Unlike
        that, it may be unable to ``spawn``, since it does not know its seed.

    Examples
    --------
    >>> from metapac.tasks.generators import spawn_rngs
    >>> from metapac.tasks.seeds import spawn_rng, spawn_seed
    >>> spawn_rngs(spawn_seed(0), 8)[7].random() == spawn_rng(spawn_seed(0), 7).random()
    True
    """
    entropy: Any = seed.entropy  # NumPy also takes sequences, which are not worth the trouble
    if count and isinstance(entropy, int):
        states = _hash_states([entropy, *seed.spawn_key], count)
        rngs = [_from_state(words) for words in states]
        if rngs[-1].bit_generator.state == spawn_rng(seed, count - 1).bit_generator.state:
            return rngs
    return [spawn_rng(seed, i) for i in range(count)]


class _State(ISeedSequence):
    """A seed that is hashed already."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(
        self, n_words: int, dtype: DTypeLike = np.uint32
    ) -> NDArray[np.uint32 | np.uint64]:
        """Return the words."""
        return self._words


def _from_state(words: NDArray[np.uint64]) -> np.random.Generator:
    seed: Any = _State(words)  # NumPy's stubs know no other seeds than its own
    return np.random.Generator(np.random.PCG64(seed))


def _hash_states(numbers: list[int], count: int) -> NDArray[np.uint64]:
    """Return the state of each item of a seed with this entropy and key, (count, 4)."""
    entropy = _as_words(numbers[0])
    entropy += [0] * (_POOL - len(entropy)) + [w for key in numbers[1:] for w in _as_words(key)]
    words = [np.array([word], np.uint32) for word in entropy] + [np.arange(count, dtype=np.uint32)]
    constants = _constants(*_HASH)
    pool = [_scramble(word, constants) for word in words[:_POOL]]
    for i in range(_POOL):
        for j in range(_POOL):
            if i != j:
                pool[j] = _mix(pool[j], _scramble(pool[i], constants))
    for word in words[_POOL:]:
        pool = [_mix(mixed, _scramble(word, constants)) for mixed in pool]
    constants = _constants(*_READ)
    halves = [_scramble(word, constants) for word in pool * 2]
    return np.stack(halves, axis=1).astype("<u4").view("<u8").astype(np.uint64)


def _as_words(number: int) -> list[int]:
    """Return the digits of a number in base 2**32, the lowest first."""
    words = [number % _WORD]
    while number := number // _WORD:
        words.append(number % _WORD)
    return words


def _constants(start: int, factor: int) -> Iterator[tuple[np.uint32, np.uint32]]:
    """Yield neighbours in a sequence of powers."""
    while True:
        following = start * factor % _WORD
        yield np.uint32(start), np.uint32(following)
        start = following


def _scramble(word: Words, constants: Iterator[tuple[np.uint32, np.uint32]]) -> Words:
    """Return a word hashed by the next constants."""
    before, after = next(constants)
    hashed: Words = (word ^ before) * after
    return hashed ^ (hashed >> _SHIFT)


def _mix(one: Words, other: Words) -> Words:
    """Return one word made of two."""
    mixed: Words = one * _LEFT - other * _RIGHT
    return mixed ^ (mixed >> _SHIFT)
