"""Fixtures for tests with real sockets and the real ffmpeg."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import AsyncIterator
from pathlib import Path

import imageio_ffmpeg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rtmprelay.config import RelayConfig
from rtmprelay.service import RelayService
from tests.helpers import real_reactor_fixture
from tests.service.interop import FFmpeg, Relay
from tests.service.relay_world import World


@pytest.fixture(scope="session")
def ffmpeg(tmp_path_factory: pytest.TempPathFactory) -> FFmpeg:
    """The real ffmpeg, and the media that it has made so far."""
    folder: Path = tmp_path_factory.mktemp("media")
    return FFmpeg(imageio_ffmpeg.get_ffmpeg_exe(), folder)


@real_reactor_fixture
async def relay() -> AsyncIterator[Relay]:
    """A relay on a port of its own."""
    service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",)))
    relay = Relay(service)
    service.startService()
    yield relay
    await service.stopService()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody but these tests trusts: key file, certificate file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    key_file, certificate_file = folder / "key.pem", folder / "cert.pem"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    certificate_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file


@real_reactor_fixture
async def world() -> AsyncIterator[World]:
    """Things to start; stopped afterwards."""
    world = World()
    yield world
    await world.stop()
