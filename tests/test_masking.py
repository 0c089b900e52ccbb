"""Nothing secret of an address is shown, whatever its form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac._text import find_secrets, mask, scrub, scrub_line


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://me:secret@host:5432/db", "postgres://***@host:5432/db"),
        ("postgres://me:se/cret@host/db", "postgres://***@host/db"),
        ("postgres://me:se#cr?et@host/db", "postgres://***"),
        ("postgres://host/db?password=@x", "postgres://***"),
        ("postgres://u:[x@h/db", "postgres://***@h/db"),
        ("postgres://u:[x", "postgres://u:***"),
        ("postgres://[::1]:5432/db", "postgres://[::1]:5432/db"),
        ("postgres://[::1]/db", "postgres://[::1]/db"),
        (
            "postgres:///db?user=me&password=secret&host=here",
            "postgres:///db?host=here&***",
        ),
        ("https://h/a.csv?X-Amz-Signature=s&region=eu-1", "https://h/a.csv?region=eu-1&***"),
        ("https://h/a.csv?token", "https://h/a.csv?***"),
        ("https://h/a.csv?region=eu#token", "https://h/a.csv?region=eu&***"),
        ("https://h/a.csv#token", "https://h/a.csv?***"),
        ("jdbc://h/db;password=x;user=y", "jdbc://h/db;password=***;user=y"),
        (" postgres://u:secret@127.0.0.1:1/db", "postgres://***@127.0.0.1:1/db"),
        ("postgres://u:se@cr/et@127.0.0.1:1/db", "postgres://***@127.0.0.1:1/db"),
        ("md:db?motherduck_token=secret", "md:db?***"),
        ("MD:db?x=secret", "MD:db?***"),
        ("jdbc:postgresql://h/db?user=u&password=secret", "jdbc:postgresql://h/db?***"),
        ("jdbc:postgresql://u:secret@h/db", "jdbc:postgresql://***@h/db"),
        ("jdbc:oracle:thin:u/secret@h", "jdbc:***@h"),
        ("http:/u:secret@h/x.parquet", "http:/***@h/x.parquet"),
        ("http:u:secret@h/x.parquet", "http:***@h/x.parquet"),
        ("host=h port=1 user=u password=sec'r,e)t", "host=h port=1 user=u password=***"),
        ("host=h password = 'se cret' user=u", "host=h password = *** user=u"),
        ("AccountKey=secret;Name=x", "AccountKey=***;Name=x"),
        ("run:12:30.csv", "run:12:30.csv"),
        ("key=3/design=4/part.csv", "key=3/design=4/part.csv"),
        ("file:/home/a@b.csv", "file:/home/a@b.csv"),
        ("s3://bucket/folder/*.parquet", "s3://bucket/folder/*.parquet"),
        ("file:///home/a@b.csv?x", "file:///home/a@b.csv?x"),
        ("scores/a@b.csv", "scores/a@b.csv"),
        (r"C:\scores://x", r"C:\scores://x"),
    ],
)  # fmt: skip
def test_addresses_are_shown_without_secrets(address: str, shown: str) -> None:
    assert mask(address) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no such host", "no such host"),
        ("cannot open https://u:p@h/x?sig=1 now", "cannot open https://***@h/x?*** now"),
        ("bad: host=h password=a.b user=c", "bad: host=h password=*** user=c"),
        ("bad: password='a b' user=c", "bad: password=*** user=c"),
        ("AWS_SECRET_ACCESS_KEY: abc", "AWS_SECRET_ACCESS_KEY: ***"),
    ],
)
def test_messages_of_engines_are_shown_without_secrets(text: str, shown: str) -> None:
    assert scrub(text) == shown


def test_the_name_of_a_file_is_shown_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("token=3.csv", "ab:c@d.csv"):
        assert mask(name) != name
        Path(name).touch()
        assert mask(name) == name


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3:/u:secret@b/x.json: No such file", "s3:/***@b/x.json: No such file"),
        ("bad (postgres://u:secret@h/x).", "bad (postgres://***@h/x)."),
        ("password=*** user=u: No such file", "password=*** user=u: No such file"),
        ("user=u password=***: No such file", "user=u password=***: No such file"),
        ("https:/h/p.json?sig=secret: none", "https:/h/p.json?sig=*** none"),
        ("see https://github.com/metapac/metapac/issues.",) * 2,
        ("the server spark://host:7077, or (spark://host:7077).",) * 2,
        ("folder key=3/design=4: Pass: it, or --epsilon key=0.1",) * 2,
        ("token: 'a' and tokens=3, sigma=2, compass=1",) * 2,
    ],
)
def test_messages_lose_what_looks_like_a_secret_and_nothing_else(text: str, shown: str) -> None:
    assert scrub_line(text) == shown


def test_short_pieces_of_a_password_are_hidden_as_words() -> None:
    secrets = find_secrets("postgres://u:se@cr/et@127.0.0.1:1/db")
    assert scrub('host name "cr" of a crate', secrets) == 'host name "***" of a crate'


# A secret of letters that no other part of the addresses has.
SECRET = st.text("QXZ789", min_size=6, max_size=20)
ODD = st.text("/#?[]@:&=;%+ ", max_size=3)
FORMS = [
    "postgres://user:{}@host/db",
    "postgres://{}:word@host/db",
    "postgres://{}@host/db?sslmode=require",
    "postgres://host/db?password={}",
    "postgres://host/db?sslmode=require&x={}",
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
    repeated = scrub(f'could not open "{address}": bad part {secret}!', find_secrets(address))
    assert secret not in repeated


@given(st.sampled_from(FORMS), SECRET)
def test_secrets_are_found_as_they_are_decoded(form: str, secret: str) -> None:
    address = form.format("%2F" + secret)
    assert scrub(f"login /{secret} failed", find_secrets(address)) == "login *** failed"


@given(st.text("abc/@:?#", max_size=12))
def test_every_text_can_be_masked(text: str) -> None:
    assert mask(text) == text or "://" in text or "@" in text
    mask(f"x://{text}")
