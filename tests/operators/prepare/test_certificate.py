"""The certificate of a job."""

from __future__ import annotations

import sys

import pytest

from bridge.exceptions import ConfigurationError
from operators.prepare.certificate import new_certificate


def test_each_job_has_a_certificate_of_its_own_and_never_shows_it() -> None:
    first, second = new_certificate("Op"), new_certificate("Op")
    assert first.key != second.key and first.certificate != second.certificate
    assert first.key.startswith(b"-----BEGIN PRIVATE KEY") and first.certificate.startswith(
        b"-----BEGIN CERTIFICATE"
    )
    assert repr(first) == "Certificate()"


@pytest.mark.fault(
    "security", "groupTls without the package cryptography is an error that says what to install"
)
def test_missing_cryptography_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(
        ConfigurationError,
        match=r"Op: groupTls needs the package cryptography .*install the extra tls of akdl, as you",
    ):
        new_certificate("Op")
