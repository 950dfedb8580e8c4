"""What is hidden of addresses, texts and parameters, and what stays readable. Where all this is
shown: tests/e2e/test_secrets.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from akdl.masking import login_of, masked, masked_value, shown
from tests.support.secret_values import ADDRESSES, HARMLESS, SECRET, TREES, leaks


@pytest.mark.parametrize("address", ADDRESSES)
def test_secrets_of_addresses_are_masked(address: str) -> None:
    assert not leaks(shown(address)), shown(address)
    assert shown(shown(address)) == shown(address)


@pytest.mark.parametrize("address", [each for each in ADDRESSES if " " not in each])
def test_secrets_of_addresses_in_texts_are_masked(address: str) -> None:
    for text in (
        f"cannot read {address}: HTTP 404",
        f"'{address}'.",
        f"[{address}]",
        f"x\n{address}",
    ):
        assert not leaks(masked(text)), masked(text)
    assert masked(f"see {shown(address)}: no file") == f"see {shown(address)}: no file"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("https://me:pass@host:80/a/b%20c.zip?token=t#sha256=0", "https://host:80/a/b%20c.zip?..."),
        ("oss://key:secret@bucket/a", "oss://bucket/a"),
        ("http://me:sec/ret@host/a@b?x", "http://b?..."),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("s3://bucket/runs/2024-05-31/model@v2.zip", "s3://bucket/runs/2024-05-31/model@v2.zip"),
        ("https://Host.example/@me/a:b@c", "https://Host.example/@me/a:b@c"),
        ("s3://AKIA/SEC/RET@bucket", "s3://bucket"),
        ("S3a://KEY/s3/cr3t+@bucket/a?x", "S3a://bucket/a?..."),
        ("s3://key/sec:ret@bucket/a", "s3://bucket/a"),
        ("s3:///key:secret@bucket/a", "s3://bucket/a"),
        ("oss://wjalr7/utnFEMI3K7/bPxRfi@bucket/a", "oss://bucket/a"),
        (
            "jdbc:sqlserver://host:1433;user=sa;password=x",
            "jdbc:sqlserver://host:1433;user=sa;password=***",
        ),
        ("https://u:p#w@host/x", "https://host/x"),
        ("https://u:p@host/x?mail=a@b", "https://..."),
        ("http://[fe80::1]:80/x", "http://[fe80::1]:80/x"),
        ("zip://a.csv::https://u:p@host/b.zip?x=1", "zip://a.csv::https://host/b.zip?..."),
        ("/data/a b/model.zip", "/data/a b/model.zip"),
        ("file:///data/a.zip", "file:///data/a.zip"),
    ],
)
def test_masked_address_keeps_host_and_path(address: str, text: str) -> None:
    assert shown(address) == text


@pytest.mark.parametrize("tree", TREES)
def test_secrets_of_parameters_are_masked(tree: dict[str, Any]) -> None:
    assert not leaks(json.dumps(masked_value("userParams", tree))), masked_value("userParams", tree)


@pytest.mark.parametrize("tree", HARMLESS)
def test_harmless_parameters_are_not_masked(tree: dict[str, Any]) -> None:
    assert masked_value("userParams", tree) == tree and masked(json.dumps(tree)) == json.dumps(tree)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("AWS_SECRET_ACCESS_KEY=wJalr/K7MD+EN=/bPx", "AWS_SECRET_ACCESS_KEY=***"),
        ("AccountKey=ab+cd/ef==;Suffix=net", "AccountKey=***;Suffix=net"),
        ("--secret-key wJal/K7 --port 1", "--secret-key *** --port 1"),
        ("password=p>w&x", "password=***&x"),
        (r'{"password": "a\"b c", "port": 1}', '{"password": "***", "port": 1}'),
    ],
)
def test_secrets_are_masked_up_to_their_end(text: str, hidden: str) -> None:
    assert masked(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "TensorFlow2BatchOp, chief 0 (a.py): the script failed: KeyError: 'scor' (did you mean 'score'?)",
        "parameter 'password': expected a string, got 5", "the token: expected a number", "x == token", "Basic authentication",
        '  File "/home/me/a.py", line 3, in main\n    large = rows["x"] > threshold', "see [a](https://host/x).",
    ],
)  # fmt: skip
def test_texts_without_secrets_stay(text: str) -> None:
    assert masked(text) == text


def test_secrets_of_an_address_are_hidden_where_they_stand_alone() -> None:
    address = f"s3://key:{SECRET}@bucket/a?sig=p%2Fq"
    assert masked(f"InvalidKey: {SECRET}, p/q", address) == "InvalidKey: ***, ***"


def test_parts_of_a_login_without_a_colon_are_hidden_where_they_stand_alone() -> None:
    """A storage takes the beginning of such an address for its bucket, and the rest for a path."""
    told = masked("NoSuchBucket: AKIA; no key SEC/RET@bucket", "s3://AKIA/SEC/RET@bucket")
    assert told == "NoSuchBucket: ***; no key ***/***@bucket"


def test_login_of_returns_user_and_password_of_an_address() -> None:
    assert [login_of(each) for each in ("u:p@h:80", "https://u:p@h/a@b", "h:80", "http://h/a@b", "u@h")] == [
        "u:p", "u:p@h/a", "", "", "u",
    ]  # fmt: skip
