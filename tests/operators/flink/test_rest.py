"""Questions to a cluster's REST: plain, with tokens and logins, over TLS, through proxies; what
errors say and do not say.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import logging
import pathlib
import socket
import ssl
import threading
from collections.abc import Iterator

import pytest

from bridge.exceptions import ConfigurationError
from operators.flink import rest
from operators.flink.rest import Rest, RestError, headers_of
from tests.operators.flink.test_slots import serving

SECRET = "s3cr3t-t0ken"


@contextlib.contextmanager
def secured(
    expected: str, context: ssl.SSLContext | None = None, status: int = 200
) -> Iterator[tuple[int, list[str]]]:
    """Serve JSON to who sends the header `Authorization`; yield the port and the paths that were
    asked for.
    """
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status if self.headers.get("Authorization", "") == expected else 401)
            body = json.dumps({"path": self.path}).encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_PATCH(self) -> None:
            self.path = f"PATCH {self.path}"
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    proxies = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    for name in (*proxies, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("FLINK_REST_CLIENT_HEADERS", raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ssl.SSLContext]:
    """A file with a certificate for 127.0.0.1 that signs itself, and a server's side of it."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flink")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
    )
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = builder.add_extension(alternative, critical=False).sign(key, hashes.SHA256())
    folder: pathlib.Path = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
    return str(folder / "cert.pem"), context


def test_rest_reads_json_and_text_without_proxies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(lambda path: {"asked": path}) as config:
        rest = Rest(f"127.0.0.1:{config['rest.port']}")
        assert (
            rest.get("/overview") == {"asked": "/overview"}
            and rest.content("/x") == b'{"asked": "/x"}'
        )


def test_rest_sends_the_headers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_REST_CLIENT_HEADERS", f"X-Team:a\nAuthorization:Bearer {SECRET}\n")
    with secured(f"Bearer {SECRET}") as (port, _):
        assert Rest(f"127.0.0.1:{port}").get("/overview") == {"path": "/overview"}


def test_login_in_the_address_is_used_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    login = base64.b64encode(f"ada:{SECRET}/".encode()).decode()
    with secured(f"Basic {login}") as (port, asked), caplog.at_level(logging.DEBUG):
        rest = Rest(f"http://ada:{SECRET}%2F@127.0.0.1:{port}/cluster/")
        assert rest.get("/overview") == {"path": "/cluster/overview"}
        assert rest.address == f"127.0.0.1:{port}/cluster" and SECRET not in repr(rest)
        with pytest.raises(
            RestError, match=r"credentials are missing or wrong \(HTTP 401\); set a header"
        ) as refused:
            Rest(f"http://ada:wrong-{SECRET}@127.0.0.1:{port}").get("/overview")
    with pytest.raises(RestError) as gone:
        rest.get("/overview")
    assert "ConnectionRefusedError" in str(gone.value) or "NewConnectionError" in str(gone.value)
    assert SECRET not in f"{refused.value!r} {gone.value!r} {caplog.text}" and len(asked) == 2


def test_rest_reports_other_statuses_and_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        secured("", status=302) as (port, _),
        pytest.raises(
            RestError, match=rf"^127.0.0.1:{port}: leads to another page \(HTTP 302\): on YARN"
        ),
    ):
        Rest(f"127.0.0.1:{port}").get("/x")
    monkeypatch.setattr(rest, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(RestError, match=r"no answer within 0.2 s$"):
            Rest(f"127.0.0.1:{silent.getsockname()[1]}").get("/x")


def test_rest_checks_certificates_unless_told_otherwise(
    certificate: tuple[str, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, context = certificate
    with secured("", context) as (port, _):
        address = f"https://127.0.0.1:{port}"
        with pytest.raises(
            RestError, match=rf"^{address}: its certificate is not trusted; set REQUESTS_CA_BUNDLE"
        ):
            Rest(address).get("/x")
        assert Rest(address, verify=file).get("/x") == {"path": "/x"}
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", file)
        assert Rest(address).get("/x") == {"path": "/x"}
    with secured("") as (port, _), pytest.raises(RestError, match="does it speak https"):
        Rest(f"https://127.0.0.1:{port}").get("/x")


@pytest.mark.parametrize("proxies", [False, True])
@pytest.mark.parametrize(
    ("argument", "variables"),
    [
        (True, {}),
        (True, {"REQUESTS_CA_BUNDLE": ""}),
        (True, {"REQUESTS_CA_BUNDLE": "", "CURL_CA_BUNDLE": ""}),
        (True, {"CURL_CA_BUNDLE": ""}),
        (True, {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}),
        ("", {}),
        ("", {"REQUESTS_CA_BUNDLE": ""}),
    ],
)
@pytest.mark.fault(
    "security", "An empty REQUESTS_CA_BUNDLE does not disable the check of certificates"
)
def test_empty_path_of_certificates_does_not_disable_their_check(
    argument: bool | str,
    variables: dict[str, str],
    proxies: bool,
    certificate: tuple[str, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with (
        secured("", certificate[1]) as (port, asked),
        pytest.raises(RestError, match="its certificate is not trusted"),
    ):
        Rest(f"https://127.0.0.1:{port}", argument, proxies).get("/x")
    assert not asked


def test_rest_uses_proxies_on_request_except_for_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with secured("") as (port, asked):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        Rest("flink.example:8081", proxies=True).get("/overview")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        Rest(f"127.0.0.1:{port}", proxies=True).get("/here")  # a cluster on this host needs none
    assert asked == ["http://flink.example:8081/overview", "/here"]


@pytest.mark.parametrize("address", ["", "ftp://host:1", "http://", "host:port"])
def test_rest_refuses_malformed_addresses(address: str) -> None:
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        Rest(address)


def test_malformed_headers_are_refused_without_showing_them() -> None:
    assert headers_of("") == {} and headers_of("a: b:c \n\nd:e") == {"a": "b:c", "d": "e"}
    with pytest.raises(
        ConfigurationError, match="line 2: expected Name:value, got a line of 12 characters"
    ) as raised:
        headers_of(f"a:b\n{SECRET}")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("AKDL_TEXT_MB", "its answer is too long: .* set AKDL_TEXT_MB"),
        (None, "did not end within 0 s"),
    ],
)
@pytest.mark.fault("security", "An endless answer of REST is an error")
def test_rest_refuses_answers_that_are_too_long_or_slow(
    monkeypatch: pytest.MonkeyPatch, limit: str | None, words: str
) -> None:
    if limit is None:
        monkeypatch.setattr("operators.flink.rest._WHOLE_S", 0.0)
    else:
        monkeypatch.setenv(limit, "0.5")
    with serving(lambda path: {"text": "x" * (1 << 20)}) as config:
        with pytest.raises(RestError, match=words):
            Rest(f"{config['rest.address']}:{config['rest.port']}").get("/overview")


def test_a_job_is_cancelled() -> None:
    with secured("", status=202) as (port, asked):
        Rest(f"127.0.0.1:{port}").cancel("a1b2")
    assert asked == ["PATCH /jobs/a1b2"]
