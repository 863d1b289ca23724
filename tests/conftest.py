"""Settings for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.certificates import self_signed

# How long an example takes depends on what else the machine does; that is no failure.
settings.register_profile("rtmprelay", deadline=None)
settings.load_profile("rtmprelay")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody but these tests trusts: key file, certificate file."""
    private, signed = self_signed("127.0.0.1")
    folder = tmp_path_factory.mktemp("tls")
    key_file, certificate_file = folder / "key.pem", folder / "cert.pem"
    key_file.write_bytes(private)
    certificate_file.write_bytes(signed)
    return key_file, certificate_file
