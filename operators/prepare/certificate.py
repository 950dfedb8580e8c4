"""Certificate of one job, with which members of a group identify each other and encrypt their
messages.
"""

from __future__ import annotations

import datetime

from bridge.exceptions import ConfigurationError
from bridge.settings import TLS_NAME, Certificate

# A stream runs for years, and an expired certificate would stop it. The key is worth nothing once
# the job has ended.
_DAYS = 3650
# The clocks of hosts differ: without this margin a host whose clock is behind refuses a new
# certificate.
_SKEW = datetime.timedelta(days=1)


def new_certificate(operator: str) -> Certificate:
    """Make a self-signed certificate that serves as its own authority for one job.

    Every member receives the certificate with its key and trusts nothing else, so no authority has
    to be installed on the hosts.

    Raises:
        ConfigurationError: The package cryptography is missing. It is an extra, because few groups
            need TLS.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    except ImportError:
        raise ConfigurationError(
            f"{operator}: groupTls needs the package cryptography where the job is made: install"
            " the extra tls of akdl, as you installed akdl"
        ) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, TLS_NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        # gRPC checks this name and not the host's address, so one certificate serves all members,
        # wherever Flink places them.
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(TLS_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Certificate(private, signed.public_bytes(serialization.Encoding.PEM))
