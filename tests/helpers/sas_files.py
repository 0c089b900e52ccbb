"""A slow writer of SAS transport files (version 5), for tests of the reader."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

Value = float | str  # text, or in a column of numbers '.', '.A' to '.Z' and '._' for missing


def card(text: str) -> bytes:
    return text.ljust(80).encode()


def header(part: str, numbers: str = "0" * 30) -> bytes:
    return card(f"HEADER RECORD*******{part:8}HEADER RECORD!!!!!!!{numbers}")


@lru_cache(maxsize=2**16)
def ibm(value: Value) -> bytes:
    """Return a number as IBM wrote it: a byte of sign and exponent, seven of fraction."""
    if isinstance(value, str) or math.isnan(value):
        return (value[-1] if isinstance(value, str) else ".").encode() + bytes(7)
    fraction, exponent = Fraction(abs(value)), 64
    if not fraction:
        return bytes(8)
    while fraction >= 1:
        fraction, exponent = fraction / 16, exponent + 1
    while fraction < Fraction(1, 16):
        fraction, exponent = fraction * 16, exponent - 1
    return bytes([exponent + 128 * (value < 0)]) + int(fraction * 2**56).to_bytes(7, "big")


def head(columns: Mapping[str, tuple[bool, int]], *, entry: int = 140) -> bytes:
    """Return the header; a column is given by whether it is text, and its width."""
    names, start = b"", 0
    for i, (name, (text, width)) in enumerate(columns.items()):
        numbers = b"".join(n.to_bytes(2, "big") for n in (1 + text, 0, width, i + 1))
        described = numbers + name.ljust(8).encode() + b" " * 48 + bytes(8) + b" " * 8 + bytes(4)
        names += (described + start.to_bytes(4, "big")).ljust(entry, b"\0")
        start += width
    parts = [
        header("LIBRARY"),
        card("SAS     SAS     SASLIB  9.4"),
        card("01JAN12:00:00:00"),
        header("MEMBER", f"000000000000000001600000{entry:06}"),
        header("DSCRPTR"),
        card("SAS     LLCP    SASDATA 9.4"),
        card("01JAN12:00:00:00"),
        header("NAMESTR", f"000000{len(columns):04}" + "0" * 20),
        padded(names),
        header("OBS"),
    ]
    return b"".join(parts)


def padded(raw: bytes) -> bytes:
    return raw + b" " * (-len(raw) % 80)


def write_transport(
    path: Path,
    columns: Mapping[str, Sequence[Value]],
    *,
    text: Mapping[str, int] | None = None,
    widths: Mapping[str, int] | None = None,
    entry: int = 140,
) -> Path:
    """Write columns of numbers, of 8 bytes or as ``widths`` says, and of ``text`` of some width."""
    text, widths = text or {}, widths or {}
    shape = {name: (name in text, text.get(name, widths.get(name, 8))) for name in columns}
    rows = b"".join(
        str(value).ljust(shape[name][1]).encode()
        if shape[name][0]
        else ibm(value)[: shape[name][1]]
        for row in zip(*columns.values(), strict=True)
        for name, value in zip(columns, row, strict=True)
    )
    path.write_bytes(head(shape, entry=entry) + padded(rows))
    return path
