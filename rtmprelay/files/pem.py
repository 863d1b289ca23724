"""Reading certificates from PEM files."""

from __future__ import annotations

from pathlib import Path

from OpenSSL import crypto
from twisted.internet.ssl import Certificate

from rtmprelay.errors import ConfigError
from rtmprelay.files.secret_file import read_bytes

_END = b"-----END CERTIFICATE-----"


def read_certificates(path: str) -> list[Certificate]:
    """The certificates in a `ca_file`, with whatever text is between them.

    Raises:
        ConfigError: The file cannot be read, a certificate is broken, or there is none.
    """
    pem = read_bytes(Path(path), "ca_file")
    try:
        certificates = [Certificate.loadPEM(part + _END) for part in pem.split(_END)[:-1]]
    except (ValueError, crypto.Error):
        raise ConfigError(f"ca_file {path!r} has a certificate in it that cannot be read") from None
    if not certificates:
        raise ConfigError(f"ca_file {path!r} has no certificate in it")
    return certificates
