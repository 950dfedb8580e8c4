"""Masking of secrets: logins, queries and keys in addresses, and values with secret names.

All messages and pages show a user's addresses and parameters only through this module, because logs
of Flink and reports are read by more people than the user. An ambiguous text is masked in the
stricter way: a masked host costs a question, and a shown password has to be changed.
"""

import re
import urllib.parse
from typing import Any, List, Set, Tuple

HIDDEN = "***"

_SCHEME = r"[A-Za-z][\w+.-]*"
# fsspec chains addresses with "::", as in zip://a.csv::https://host/b.zip, and each link may have a
# login.
_CHAIN = re.compile(rf"::(?={_SCHEME}:(?://|:))")
# A host is a name, or an IPv6 address in brackets; a port follows. Anything else in this place is a
# login.
_HOST = re.compile(r"(\[[\w:.%]*\]|[^:@\[\]]*)(:\d{0,5})?")
# Quotes, brackets and pipes end an address, because messages put addresses between them.
_ADDRESS = re.compile(rf"(?<![\w+.-]){_SCHEME}://[^\s\"'`<>|]+")
# In abfss://container@account/path the part before the @ names a container, which is not secret.
_AZURE = {"abfs", "abfss", "wasb", "wasbs"}
# Punctuation that may follow an address in a sentence.
_AFTER = ".,:;!)]}"
# A name, a separator, and a value: name=value, 'name': 'value', --name value. Not ":" and a bare
# word, as in prose.
_PAIR = re.compile(
    r"(?<![\w.-])(?P<name>-{0,2}[A-Za-z_][\w.-]*)"
    r"(?P<between>[\"']?\s*(?:=(?!=)|:(?=\s*[\"']))\s*|(?<=[\w.-])[ ]+(?=[^\s-]))"
    r"(?P<value>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[^\s\"'&;,)\]}]+)"
)
# In "Authorization: Basic ..." and "Bearer ..." the secret follows the name of its scheme, not an
# equals sign.
_HEADER = re.compile(
    r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:\w+ +)?|\bbearer +)[\w.~+/=-]{4,}"
)
# The words of apiKey, API_KEY and api-key: a run of capitals, or a word with at most one capital in
# front.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = {
    "auth",
    "authentication",
    "authorization",
    "bearer",
    "cookie",
    "cred",
    "creds",
    "pw",
    "pwd",
    "sas",
    "sig",
    "token",
}
_SECRET_PARTS = re.compile(
    "passw|passphrase|passcode|secret|credential|connectionstring|token$|pwd$"
)
_SECRET_KEYS = re.compile(
    "(access|account|api|app|auth|client|encryption|master|private|shared|signing|storage|subscription)keys?$"
)
# Keys in paths have at least 20 letters and digits without a sign between them, see
# `_looks_like_a_key`.
_TOKEN = re.compile(r"[A-Za-z0-9]{20,}")
_HEX = re.compile(r"[0-9a-fA-F]{32,}")


def shown(address: str) -> str:
    """Address for messages, without user, password, query, fragment, and keys in its path. Plain
    paths stay unchanged.
    """
    return "::".join(_shown_link(link) for link in _CHAIN.split(address))


def masked(text: str, address: str = "") -> str:
    """Message, such as a storage's error, without secrets; secrets of `address` are also masked
    where they stand alone.
    """
    # The longest first, since a secret may contain another: the rest of it would stay readable.
    for secret in sorted(_secrets_of(address), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _HEADER.sub(rf"\1{HIDDEN}", _PAIR.sub(_masked_pair, _ADDRESS.sub(_shown_in_text, text)))


def masked_value(name: str, value: object) -> Any:
    """Parameter value without secrets at any depth of lists, tuples and dicts."""
    if is_secret(name):
        # An empty value and a switch are shown, because they say that there is no secret.
        return value if value is None or value == "" or isinstance(value, bool) else HIDDEN
    if isinstance(value, dict):
        found = {key: masked_value(str(key), each) for key, each in value.items()}
        # Lists of variables have the name next to the value: {"name": "API_KEY", "value": "..."}.
        named = value.get("name", value.get("key"))
        return (
            {**found, "value": HIDDEN}
            if isinstance(named, str) and is_secret(named) and "value" in value
            else found
        )
    if isinstance(value, (list, tuple)):
        return [
            # Arguments of a program: ["--password", "..."]
            HIDDEN
            if isinstance(before, str) and re.match("-[^=]*$", before) and is_secret(before)
            else masked_value("", each)
            for before, each in zip(["", *value], value)
        ]
    if not isinstance(value, str):
        return value
    return (
        shown(value) if re.match(rf"{_SCHEME}:[/:]", value) and "\n" not in value else masked(value)
    )


def login_of(address: str) -> str:
    """User and password of an address in their original spelling; "" without a login."""
    rest = address.partition("://")[2] or address
    return "" if _is_host(rest) else rest.rpartition("@")[0]


def is_secret(name: str) -> bool:
    """Test if a name marks its value as secret, in any spelling: `apiKey`, `API_KEY`, `--api-key`.

    Short words count as whole words only, so that `author` is not taken for `auth`.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    joined = "".join(words)
    return bool(
        _SECRET_WORDS.intersection(words)
        or _SECRET_PARTS.search(joined)
        or _SECRET_KEYS.search(joined)
    )


def _secrets_of(address: str) -> Set[str]:
    """Masked parts of an address, in their original spelling and unquoted."""
    found = []
    for link in _CHAIN.split(address):
        login, query = login_of(link), link.partition("?")[2].partition("#")[0]
        # Parts too: where a password holds `@` or `/`, storages take a part of it for the host, and
        # name that in their errors.
        password = login.partition(":")[2] or login
        found += [login, *re.split("[:@/?#]", password), password]
        found += [query, *(pair.partition("=")[2] for pair in query.split("&"))]
    # Parts of one or two characters are left alone: replacing them would destroy the rest of the
    # message.
    return {form for each in found for form in (each, urllib.parse.unquote(each)) if len(form) > 2}


def _masked_pair(found: "re.Match[str]") -> str:
    name, between, value = found.group("name", "between", "value")
    # A space alone stands between an option of a command line and its value, and between words of
    # prose.
    if (
        not is_secret(name)
        or (not between.strip() and not name.startswith("-"))
        or value[:3] == HIDDEN
    ):
        return found.group()
    quote = value[0] if value[0] in "\"'" else ""
    return f"{name}{between}{quote}{HIDDEN}{quote}"


def _shown_in_text(found: "re.Match[str]") -> str:
    """Mask an address in a sentence, whose punctuation behind it does not belong to it."""
    address = found.group()
    # The text "?..." is how `shown` ends an address with a query, and stays so that a masked text
    # is masked again without a change.
    while address[-1] in _AFTER and not address.endswith("?..."):
        address = address[:-1]
    return shown(address) + found.group()[len(address) :]


def _shown_link(link: str) -> str:
    scheme, colon, rest = link.partition("://")
    if not colon:
        return masked(link) if "=" in link else link
    if scheme == "file":
        return f"{scheme}://{_shown_path(rest)}"
    place, path, query = _split(rest)
    login = login_of(link)
    container = f"{login}@" if scheme in _AZURE and re.fullmatch(r"[\w-]+", login) else ""
    return f"{scheme}://{container}{masked(place)}{_shown_path(path)}{query}"


def _split(rest: str) -> Tuple[str, str, str]:
    # Host and port, path, and "?...". Passwords may contain unescaped "@", "/", "?" and "#". A "/"
    # after digits alone ends a port: host:8080/a@b.
    if not _is_host(rest):
        login, _, after = rest.rpartition("@")
        if re.search("[?#]", login.partition("@")[2]):
            # The login may end at either of two places, so nothing of the host is shown.
            return "...", "", ""
        rest = after
    place, mark, rest = re.match(r"([^/?#]*)([/?#]?)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    path, query = ("/" + rest, "") if mark == "/" else ("", mark + rest)
    if mark == "/":
        cut = re.search("[?#]", path)
        path, query = (path[: cut.start()], path[cut.start() :]) if cut else (path, "")
    return place, path, "?..." if query.startswith("?") else ""


def _is_host(rest: str) -> bool:
    """Test if an address begins with its host, and not with a login.

    Logins with unescaped characters look like a host and a path, as in s3://KEY/SEC/RET@bucket.
    """
    end = min((place for place in map(rest.find, "/?#") if place >= 0), default=len(rest))
    host, login = rest[:end], rest.rpartition("@")[0]
    if _HOST.fullmatch(host) is None or (login and rest[end : end + 1] != "/"):
        return False
    # A login whose ":" was forgotten or is late, as in s3://KEY/SEC/RET@bucket. Names of buckets
    # are in lower case.
    is_odd = (
        host != host.lower() or ":" in login[end:] or _looks_like_a_key(re.sub("[/+]", "", login))
    )
    return not login or "." in host or not is_odd


def _shown_path(path: str) -> str:
    parts: List[str] = []
    for part in path.split("/"):
        before = parts[-1] if parts else ""
        # In /token/4f1c/ the value is the part behind its name.
        follows_its_name = is_secret(before) and not set("=.") & set(before + part)
        parts.append(
            HIDDEN if part and (follows_its_name or _looks_like_a_key(part)) else masked(part)
        )
    return "/".join(parts)


def _looks_like_a_key(part: str) -> bool:
    """Test if a part of a path is random, like keys of web hooks and signed links. File names have
    a dot.
    """
    if "." in part:
        return False
    if _HEX.search(part):
        return True
    return any(
        sum(map(str.isdigit, token)) >= 2
        and (token.isupper() or (token != token.lower() and token != token.upper()))
        for token in _TOKEN.findall(part)
    )
