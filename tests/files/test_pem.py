"""Certificates in PEM files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.files.pem import read_certificates
from tests.certificates import self_signed


@pytest.fixture(scope="module")
def key_and_certificate() -> tuple[bytes, bytes]:
    return self_signed("host.example")


def test_all_certificates_are_read_with_text_around_them(
    tmp_path: Path, key_and_certificate: tuple[bytes, bytes]
) -> None:
    _, certificate = key_and_certificate
    path = tmp_path / "ca.pem"
    path.write_bytes(b"\xef\xbb\xbfbefore\n" + certificate + b"\nbetween\n" + certificate + b"\nafter\n")
    assert len(read_certificates(str(path))) == 2


def test_a_file_without_a_certificate_is_refused(
    tmp_path: Path, key_and_certificate: tuple[bytes, bytes]
) -> None:
    path = tmp_path / "bad"
    for content in (b"", b"text", key_and_certificate[0], b"\x00\xff"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="has no certificate in it"):
            read_certificates(str(path))


def test_a_broken_certificate_is_refused(tmp_path: Path, key_and_certificate: tuple[bytes, bytes]) -> None:
    path = tmp_path / "broken"
    path.write_bytes(key_and_certificate[1].replace(b"M", b"?"))
    with pytest.raises(ConfigError, match="has a certificate in it that cannot be read"):
        read_certificates(str(path))


@pytest.mark.parametrize("name", ["missing", ".", "a\x00b"])
def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"^ca_file .* cannot be read: "):
        read_certificates(str(tmp_path / name))


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(bytes(2**20 + 1))
    with pytest.raises(ConfigError, match="is larger than 1048576 bytes"):
        read_certificates(str(path))
