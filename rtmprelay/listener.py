"""One listening port as a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IListeningPort, IProtocolFactory, IStreamServerEndpoint
from twisted.logger import Logger
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.errors import ConfigError
from rtmprelay.rtmp.addresses import describe_address


def _context_options(endpoint: object) -> Any:
    """The options of an endpoint for TLS, which has them in a private place."""
    return cast(Any, endpoint)._sslContextFactory


class Listener(Service):
    """One listening port. A port that cannot be opened is an error at once, not a line in the log."""

    _log = Logger()

    def __init__(
        self,
        endpoint: IStreamServerEndpoint,
        factory: IProtocolFactory,
        protocol: str = "RTMP",
        make_endpoint: Callable[[], IStreamServerEndpoint] | None = None,
    ) -> None:
        """Args:
        make_endpoint: Makes the same endpoint again, with the certificate that is in its files then.
        """
        self._endpoint = endpoint
        self._factory = factory
        self._protocol = protocol
        self._make_endpoint = make_endpoint
        self._port: Deferred[IListeningPort | None] | None = None
        self.address: IAddress | None = None

    def reload_certificate(self) -> None:
        """Read the key and the certificate of an `ssl:` endpoint again: new connections get them.

        Raises:
            ConfigError: They cannot be used; then those from before stay.
        """
        if self._make_endpoint is None:
            return
        try:
            context = _context_options(self._make_endpoint()).getContext()
        except Exception as error:
            raise ConfigError(str(error) or type(error).__name__) from None
        # Twisted keeps the context of its options, and makes each connection from it.
        _context_options(self._endpoint)._context = context

    @override
    def privilegedStartService(self) -> None:
        super().privilegedStartService()
        self._listen()

    @override
    def startService(self) -> None:
        super().startService()
        if self._port is None:
            self._listen()

    def _listen(self) -> None:
        failures: list[Failure] = []
        self._port = self._endpoint.listen(self._factory).addCallback(self._opened)
        self._port.addErrback(failures.append)
        if failures:
            self._port = None
            failures[0].raiseException()
        # Some endpoints take their time; then the log is all that is left to tell it.
        self._port.addCallback(lambda port: self._tell_if_failed(port, failures))

    def _tell_if_failed(self, port: IListeningPort | None, failures: list[Failure]) -> IListeningPort | None:
        for failure in failures:
            if not failure.check(CancelledError):
                self._log.failure("Cannot listen", failure)
        return port

    def _opened(self, port: IListeningPort) -> IListeningPort:
        self.address = port.getHost()
        address = describe_address(self.address)
        self._log.info("Listening on {address} for {protocol}", address=address, protocol=self._protocol)
        return port

    @override
    def stopService(self) -> Deferred[None]:
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        waiting, self._port = self._port, None
        self.address = None
        if waiting is not None:
            waiting.cancel()
            port = await waiting
            if port is not None:
                await maybeDeferred(port.stopListening)
