"""Errors, and text from data or addresses: nothing unsafe or secret is shown."""

from __future__ import annotations

import pickle
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput, MetapacError, MissingExtra, NotCalibrated, _common, errors
from metapac._text import mask, scrub_line, visible, without_invisible
from metapac.errors import DownloadFailed, keyword

SUBCLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, MetapacError) and value is not MetapacError
]


def test_exceptions_survive_a_pickle_and_are_what_python_would_raise() -> None:
    for kind in SUBCLASSES:
        again = pickle.loads(pickle.dumps(kind("a and {b}", parameter=("a", "b"))))
        assert type(again) is kind
        assert (str(again), again.parameters) == ("a and {b}", ("a", "b"))
        assert kind("a", parameter="a").parameters == ("a",)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(NotCalibrated, ValueError)
    assert issubclass(NotCalibrated, AttributeError)  # so that hasattr(method, "threshold_") works
    assert issubclass(DownloadFailed, OSError)
    assert issubclass(MissingExtra, ModuleNotFoundError)
    assert keyword("epsilon", np.float64(0.1)) == "epsilon=0.1"
    assert keyword("split", "joint") == "split='joint'"
    assert keyword("delta", None) == "delta=None"


def test_a_missing_module_names_its_extra_unless_it_is_a_bug() -> None:
    for module in ("nowhere", "nowhere.figure"):
        with pytest.raises(MissingExtra, match=r"^a figure needs nowhere.*'metapac\[plot\]'"):
            _common.require(module, extra="plot", purpose="a figure")
    with pytest.raises(ModuleNotFoundError, match="metapac.nowhere") as caught:
        _common.require("metapac.nowhere", extra="plot", purpose="a figure")
    assert not isinstance(caught.value, MissingExtra)


ADDRESSES = [
    ("postgres://me:secret@host:5432/db", "postgres://host:5432/..."),
    ("postgres://me:se/cret@host/db", "postgres:///..."),  # programs differ on the host
    ("postgres://host/db?password=@x", "postgres:///..."),
    ("postgres://u:[x", "postgres://u/..."),
    ("postgres://u:12345[x", "postgres://u/..."),
    ("https://h/secret/a.csv?X-Amz-Signature=s&region=eu-1", "https://h/..."),
    ("https://h/a.csv#token", "https://h/..."),
    ("https://h/a.csv;jsessionid=token", "https://h/..."),
    (" postgres://u:secret@127.0.0.1:1/db", "postgres://127.0.0.1:1/..."),
    ("'postgres://u:se cret@h/db'", "postgres:///..."),
    ("md:db?motherduck_token=secret", "md://db/..."),
    ("jdbc:oracle:thin:u/secret@h", "jdbc:///..."),
    ("http:/u:secret@h/x.parquet", "http://h/..."),
    ("host=h port=1 user=u password=sec'r,e)t", "host=h port=1 user=u password=***"),
    ("host=h password = 'se cret' user=u", "host=h password = *** user=u"),
    ("AccountKey=secret;Name=x", "AccountKey=***;Name=x"),
    ("run:12:30.csv", "run:12:30.csv"),
    ("key=3/design=4/part.csv", "key=3/design=4/part.csv"),
    ("scores/a@b.csv", "scores/a@b.csv"),
    ("C:/scores/a@b.csv", "C:/scores/a@b.csv"),
]


def test_addresses_are_shown_by_scheme_and_host() -> None:
    for address, shown in ADDRESSES:
        assert mask(address) == shown


def test_names_of_files_are_shown_as_they_are(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("token=3.csv", "ab:c@d.csv"):
        assert mask(name) != name
        Path(name).touch()
        assert mask(name) == name


MESSAGES = [
    ("cannot open https://u:p@h/x?sig=1 now", "cannot open https://h/... now"),
    ("bad: host=h password=a.b user=c", "bad: host=h password=*** user=c"),
    ("bad: password='a b' user=c", "bad: password=*** user=c"),
    ("s3:/u:secret@b/x.json: No such file", "s3://b/...: No such file"),
    ("bad (postgres://u:secret@h/x).", "bad (postgres://h/...)."),
    ("open pg://u:secret@ now", "open pg:///... now"),
    ("user=u password=***: No such file", "user=u password=***: No such file"),
    ("https:/h/p.json?sig=secret: none", "https://h/...: none"),
    ("see https://github.com/metapac/metapac/issues.",) * 2,
    ("the server spark://host:7077, or (spark://host:7077).",) * 2,
    ("folder key=3/design=4: Pass: it, or --epsilon key=0.1",) * 2,
    ("token: 'a' and tokens=3, sigma=2, compass=1",) * 2,
]


def test_messages_lose_what_looks_like_a_secret_and_nothing_else() -> None:
    for text, shown in MESSAGES:
        assert scrub_line(text) == shown


REPEATED = [
    ('at "127.0.0.1", port 5432 failed: refused', 'at "127.0.0.1", port 5432 failed: refused'),
    ('database "db" of user "me" is missing', 'database "***" of user "***" is missing'),
    ("bad 'se%2Fcret' or se/cret", "bad '***%***' or ***/***"),
    ("se is part of second", "*** is part of second"),
]


def test_engines_may_repeat_only_what_is_shown_of_an_address() -> None:
    for text, shown in REPEATED:
        assert scrub_line(text, "postgres://me:se%2Fcret@127.0.0.1:5432/db") == shown


# A secret of letters that no other part of the addresses has.
SECRET = st.text("QXZ789", min_size=6, max_size=20)
ODD = st.text("/#?[]@:&=;%+ ", max_size=3)
FORMS = [
    "postgres://user:{}@host/db",
    "postgres://{}:word@host/db",
    "postgres://{}@host/db?sslmode=require",
    "postgres://host/db?password={}",
    "postgres://host/db?sslmode=require&x={}",
    "https://host/{}/a.csv",
    "https://host/a.csv?{}",
    "https://host/a.csv?sig={}&region=eu",
    "https://host/a.csv#{}",
    "s3://bucket/a.csv?s3_secret_access_key={}",
    " postgres://user:{}@host/db",
    "md:db?motherduck_token={}",
    "jdbc:postgresql://host/db?user=u&password={}",
    "https:/user:{}@host/a.csv",
]


@given(st.sampled_from(FORMS), SECRET, ODD, ODD)
def test_a_secret_anywhere_is_hidden(form: str, secret: str, before: str, after: str) -> None:
    address = form.format(before + secret + after)
    assert secret not in mask(address)
    repeated = scrub_line(f'could not open "{address}": bad part {secret}!', address)
    assert secret not in repeated


@given(st.text("abc/@:?#", max_size=12))
def test_every_text_can_be_masked(text: str) -> None:
    assert mask(text) == text or ":" in text
    mask(f"x://{text}")


UNSAFE = [
    ("\x1b]0;PWNED\x07\x1b[2J", r"\x1b]0;PWNED\x07\x1b[2J"),
    ("a\nb\tc\rd", r"a\nb\tc\rd"),
    ("\x7f\x80\x9b31m", r"\x7f\x80\x9b31m"),
    ("safe\u202egpj.exe", r"safe\u202egpj.exe"),
    ("\u2066\u2069\u200b\u2028\ufeff", r"\u2066\u2069\u200b\u2028\ufeff"),
    ("\udc80", r"\udc80"),
    ("\U000e0041", r"\U000e0041"),
    ("Zürich 東京 שלום 😀 Ωμέγα\u0301", "Zürich 東京 שלום 😀 Ωμέγα\u0301"),
]


def test_what_is_unsafe_becomes_an_escape() -> None:
    for text, shown in UNSAFE:
        assert visible(text) == shown


@given(st.text())
def test_the_result_is_safe_and_stays_as_it_is(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not any(unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "RLI") for c in shown)
    assert visible(shown) == shown


def test_invisible_characters_are_dropped_but_blanks_stay() -> None:
    assert without_invisible("\ufeffs\u200b1\x00 a\tb\nc\u00ad") == "s1 a\tb\nc"
