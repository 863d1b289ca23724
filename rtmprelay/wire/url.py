"""The address of a stream on another server, taken apart so that its secrets stay secret."""

from __future__ import annotations

import re
from urllib.parse import unquote

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret

DEFAULT_PORTS = {"rtmp": 1935, "rtmps": 443}

# Of several @ the last one ends the password: whoever writes one into it must not see it taken for the host, and shown.
_URL = re.compile(
    r"""(?P<scheme>[^:/?\#]*)://
        (?:(?P<user>[^:/]*)(?::(?P<password>[^/]*))?@)?
        (?P<host>\[[^\]]*\]|[^:/?]*)
        (?::(?P<port>[^/?]*))?
        (?P<path>[/?].*)?""",
    re.VERBOSE | re.DOTALL,
)

#: What looks like `{app}` or `{name}`, or a typing error of one.
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

_NO_SECRET = Secret("")


@attrs.frozen
class RtmpUrl:
    """`rtmp[s]://[user:password@]host[:port]/app[/key]`.

    The first part of the path is the application; all the rest, with its slashes and query, is the key. An
    application of several parts is written with the key apart (the argument `key` of `parse`).
    """

    scheme: str
    host: str
    port: int
    #: Whether the port was written; some servers compare the address with what they are called.
    port_written: bool
    app: str
    #: The query of an address without a key: it belongs to the application.
    app_query: Secret = _NO_SECRET
    key: Secret = _NO_SECRET
    user: str = ""
    password: Secret = _NO_SECRET

    @classmethod
    def parse(cls, text: str, key: Secret | None = None) -> RtmpUrl:
        """Take an address apart.

        Args:
            key: The stream key, if it is given apart: then the whole path is the application.
        """
        parts = _URL.fullmatch(text)
        if parts is None:
            raise ConfigError("it is no address: rtmp://host/app/key or rtmps://host/app/key is expected")
        scheme = parts["scheme"].lower()
        if scheme not in DEFAULT_PORTS:
            raise ConfigError(f"its scheme is {scheme!r}: rtmp or rtmps is expected")
        host = parts["host"].strip("[]")
        if not host:
            raise ConfigError("it has no host: rtmp://host/app/key is expected")
        _refuse_bad_host(host)
        app, app_query, path_key = _split_path(parts["path"] or "", key is not None)
        if not app:
            raise ConfigError(f"it has no application: {scheme}://{parts['host']}/app/key is expected")
        if not app.isprintable():
            raise ConfigError("its application has control characters in it")
        # A key that is given apart is taken as it is.
        _refuse_unknown_placeholders(f"{app}/{path_key}")
        _refuse_unsendable(text, key.reveal() if key is not None else "")
        return cls(
            scheme=scheme,
            host=host,
            port=_port(parts["port"], scheme),
            port_written=parts["port"] is not None,
            app=app,
            app_query=Secret(app_query),
            key=key if key is not None else Secret(path_key),
            user=unquote(parts["user"] or ""),
            password=Secret(unquote(parts["password"] or "")),
        )

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "rtmps"

    @property
    def same_place(self) -> tuple[str, str, int, str, Secret, Secret]:
        """Equal for two addresses that mean one stream on one server, however they are written."""
        return self.scheme, self.host.lower(), self.port, self.app, self.app_query, self.key

    def filled_in(self, app: str, name: str) -> RtmpUrl:
        """The address for one source: `{app}` and `{name}` stand for it, and a missing key is its name."""
        replaced = self.key.reveal().replace("{app}", app).replace("{name}", name) if self.key else name
        return attrs.evolve(
            self, app=self.app.replace("{app}", app).replace("{name}", name), key=Secret(replaced)
        )

    @property
    def place(self) -> str:
        """`host:port/app`: what can be shown to anyone.

        Of an application with several parts only the first: who writes the key apart may have left it in the
        address as well.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        first, more, _ = self.app.partition("/")
        return f"{host}:{self.port}/{first}" + ("/..." if more else "")

    @property
    def tc_url(self) -> str:
        """The address without the key, as servers want it in `connect`. Its query is secret: not for showing."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port_written else ""
        return f"{self.scheme}://{host}{port}/{self.app_with_query}"

    @property
    def app_with_query(self) -> str:
        """The application as `connect` names it. Its query is secret: not for showing."""
        query = self.app_query.reveal()
        return f"{self.app}?{query}" if query else self.app

    def __str__(self) -> str:
        """The address as it may be shown: without user, password, query and key."""
        return f"{self.scheme}://{self.place}" + ("/***" if self.key else "")


def _refuse_unknown_placeholders(text: str) -> None:
    for name in _PLACEHOLDER.findall(text):
        if name not in ("app", "name"):
            raise ConfigError("it has a placeholder that is not known: {app} and {name} are")


def _split_path(path: str, key_is_apart: bool) -> tuple[str, str, str]:
    """Application, its query, and key."""
    path = path.removeprefix("/")
    if key_is_apart:
        app, _, query = path.partition("?")
        return app.strip("/"), query, ""
    app, slash, key = path.partition("/")
    if "?" in app:
        # The query comes before any slash: all of it belongs to the application.
        app, _, query = path.partition("?")
        return app, query, ""
    return app, "", key if slash else ""


def _refuse_bad_host(host: str) -> None:
    try:
        host.encode("idna")
    except UnicodeError:
        raise ConfigError("its host is no name that could be looked up") from None
    if not host.isprintable() or not set(host).isdisjoint(" []@"):
        raise ConfigError("its host has characters in it that no host has")


def _refuse_unsendable(*texts: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ConfigError("it has characters in it that cannot be sent") from None


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    # The text is not shown: with a slash in a password, it is the beginning of that.
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ConfigError(
            "its port is wrong: a number from 1 to 65535 is expected, and a slash in a password is %2F"
        )
    return int(text)
