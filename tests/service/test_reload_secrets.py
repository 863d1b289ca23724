"""SIGHUP reads certificates and tokens again: new connections get them, and bad files change nothing."""

from __future__ import annotations

import ssl
from pathlib import Path

from twisted.internet.threads import deferToThread

from rtmprelay.config.options import Options
from tests.certificates import self_signed
from tests.helpers import real_reactor_test
from tests.service.harness import Harness


def write(folder: Path, pair: tuple[bytes, bytes]) -> None:
    for name, content in zip(("key.pem", "cert.pem"), pair, strict=True):
        (folder / name).write_bytes(content)


async def certificate_of(port: int) -> str:
    return str(await deferToThread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=20))


@real_reactor_test
async def test_new_connections_get_the_certificate_that_is_in_the_files_now(
    harness: Harness, tmp_path: Path
) -> None:
    write(tmp_path, self_signed("first.example"))
    relay = harness.start_relay(
        f"ssl:0:interface=127.0.0.1:privateKey={tmp_path / 'key.pem'}:certKey={tmp_path / 'cert.pem'}"
    )
    first = await certificate_of(relay.port)
    write(tmp_path, self_signed("second.example"))
    assert await certificate_of(relay.port) == first
    assert relay.service.reload_certificates() == []
    second = await certificate_of(relay.port)
    assert second != first
    assert second.split() == (tmp_path / "cert.pem").read_text().split()
    (tmp_path / "cert.pem").write_text("nonsense")
    (problem,) = relay.service.reload_certificates()
    assert problem
    assert await certificate_of(relay.port) == second


def test_tokens_are_read_from_their_files_again(tmp_path: Path) -> None:
    for name in ("control", "read"):
        (tmp_path / name).write_text(f"the-first-token-to-{name}")
    options = Options()
    options.parseOptions(
        [
            *("--http-status", ":0", "--http-token", f"file:{tmp_path / 'control'}"),
            *("--http-read-token", f"file:{tmp_path / 'read'}"),
        ]
    )
    (tmp_path / "read").write_text("the-second-token-to-read")
    control, read = options.http_tokens()
    assert control is not None
    assert read is not None
    assert (control.reveal(), read.reveal()) == ("the-first-token-to-control", "the-second-token-to-read")
