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
    """The TLS options of an endpoint, which keeps them in a private attribute."""
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
        make_endpoint: Makes the same endpoint again, with the certificate that is in its files at that time.
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
            ConfigError: They cannot be used; the previous ones stay.
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
        # Some endpoints open later: then a failure can only be logged.
        self._port.addCallback(lambda port: self._log_failure(port, failures))

    def _log_failure(self, port: IListeningPort | None, failures: list[Failure]) -> IListeningPort | None:
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
