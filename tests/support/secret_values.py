"""Addresses and parameters with secrets in them; `leaks` finds any part of one in what is shown."""

from __future__ import annotations

from typing import Any

# Two parts, between which passwords have characters that end other parts of an address.
# Long enough to be in no random name, time or address by chance.
FIRST, SECOND, NUMBER = "zq7jvkx", "xw9kqfz", 7390251864
SECRET = FIRST + SECOND
_KEY = f"Ab12{SECRET}CdEfGhIjKlMn34"

ADDRESSES = [
    f"https://me:{SECRET}@nowhere.invalid/a.csv",
    f"https://me:{SECRET}@nowhere.invalid:8443/a.csv",
    f"https://{SECRET}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}#{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}?{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}/{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}@{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}:{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}%40{SECOND}@nowhere.invalid/a.csv",
    f"http://me:{FIRST}@{SECOND}/x?y@nowhere.invalid/a.csv",
    f"http://me:{SECRET}@nowhere.invalid/a.csv?mail=a@b",
    f"http://me:{SECRET}@[::1]:9/a.csv",
    f"http://nowhere.invalid/a.csv?sig={SECRET}",
    f"http://nowhere.invalid/a.csv?sv=1&sig={FIRST}%2F{SECOND}&se=2",
    f"http://nowhere.invalid?token={SECRET}",
    f"http://nowhere.invalid/?X-Amz-Signature={SECRET}",
    f"http://nowhere.invalid/a.csv?mail=a@b&sig={SECRET}",
    f"http://nowhere.invalid/a.csv?a=b?token={SECRET}",
    f"http://nowhere.invalid/a.csv#token={SECRET}",
    f"http://nowhere.invalid#{SECRET}",
    f"http://nowhere.invalid/a.csv;password={SECRET}",
    f"http://nowhere.invalid/access_key={SECRET}/a.csv",
    f"http://nowhere.invalid/token/{SECRET}/a.csv",
    f"http://nowhere.invalid/services/{_KEY}/a.csv",
    f"http://nowhere.invalid/hooks/{_KEY}",
    f"s3://key:{SECRET}@bucket/a.csv",
    f"s3a://key:{FIRST}/{SECOND}@bucket/a.csv",
    f"oss://key:{FIRST}+{SECOND}@bucket/a.csv",
    f"s3://KEY/{FIRST}/{SECOND}@bucket/a.csv",
    f"s3a://key/{FIRST}:{SECOND}@bucket/a.csv",
    f"cos:///key:{FIRST}/{SECOND}@bucket/a.csv",
    f"jdbc:sqlserver://nowhere.invalid;user=me;password={SECRET}",
    f"abfss://container:{SECRET}@account.nowhere.invalid/a.csv",
    f"wasbs://container@account.nowhere.invalid/a.csv?{SECRET}",
    f"ftp://me:{SECRET}@nowhere.invalid/a.csv",
    f"sftp://me:{FIRST};{SECOND}@nowhere.invalid/a.csv",
    f"hdfs://me:{SECRET}@nowhere.invalid:9000/a.csv",
    f"zip://a.csv::http://me:{SECRET}@nowhere.invalid/b.zip",
    f"zip://a.csv::http://me:{FIRST}#{SECOND}@nowhere.invalid/b.zip",
    f"zip://a.csv::http://nowhere.invalid/b.zip?sig={SECRET}",
    f"simplecache::s3://key:{SECRET}@bucket/a.csv",
    f"filecache::zip://a.csv::s3://key:{SECRET}@bucket/b.zip",
    f"zip://me:{SECRET}@a.csv::file:///b.zip",
    f"jdbc:postgresql://me:{SECRET}@nowhere.invalid/db",
    f"jdbc:postgresql://nowhere.invalid/db?user=me&password={SECRET}",
    f"http://nowhere.invalid/a b.csv?sig={FIRST} {SECOND}",
]

TREES: list[dict[str, Any]] = [
    {"password": SECRET},
    {"db": {"password": SECRET}},
    {"db": [{"host": "h", "Passwd": SECRET}]},
    {"a": {"b": {"c": {"d": [[{"pwd": SECRET}]]}}}},
    {
        "access_key": SECRET,
        "accessKey": SECRET,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "accesskey": SECRET,
    },
    {"auth": {"user": "me", "value": SECRET}},
    {"auth": ["me", SECRET]},
    {"token": SECRET, "hf_token": SECRET, "accessToken": SECRET, "authtoken": SECRET},
    {"credential": SECRET, "credentials": {"x": SECRET}},
    {"sas": SECRET, "SAS_TOKEN": SECRET},
    {"api_key": SECRET, "apikey": SECRET, "API-KEY": SECRET, "api_keys": [SECRET]},
    {"passphrase": SECRET, "client_secret": SECRET, "private_key": f"-----BEGIN\n{SECRET}\n"},
    {"headers": {"Authorization": f"Bearer {SECRET}", "Cookie": SECRET}},
    {"header": f"Authorization: Bearer {SECRET}"},
    {"connection": f"Server=h;User Id=me;Pwd={SECRET};Database=d"},
    {"dsn": f"host=h user=me password={SECRET}"},
    {"connectionString": SECRET},
    {"args": ["--user", "me", "--password", SECRET]},
    {"command": f"load --token {SECRET} --rows 7"},
    {"env": [{"name": "DB_PASSWORD", "value": SECRET}]},
    {"text": '{"password": "' + SECRET + '"}'},
    {"password": NUMBER},
    *({"source": address} for address in ADDRESSES[:4]),
    {"sources": ADDRESSES},
]

HARMLESS: list[dict[str, Any]] = [
    {
        "tokenizer": "bert",
        "max_tokens": 512,
        "author": "me",
        "key": "user_id",
        "keys": ["a"],
        "authors": 3,
        "passes": 2,
    },
    {
        "path": "s3://bucket/runs/TF2TableModelTrainBatchOp-20240531-180000/model.zip",
        "signatureDefKey": "serving_default",
    },
    {
        "url": "https://host:8080/pkg@1.0/a.csv",
        "part": "hdfs://host:9000/a=1/b=2/part.csv",
        "container": "abfss://c@account/x",
    },
]


def leaks(text: str) -> list[str]:
    """Return the lines of a text that show a part of a secret."""
    return [
        line
        for line in text.splitlines()
        if any(part in line.lower() for part in (FIRST, SECOND, str(NUMBER)))
    ]
