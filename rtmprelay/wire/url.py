"""The URL of a stream on another server, parsed so that its secrets stay secret."""

from __future__ import annotations

import re
from urllib.parse import unquote

import attrs

from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret

DEFAULT_PORTS = {"rtmp": 1935, "rtmps": 443}

# The last @ ends the password: a password that contains one must not become part of the host, which is shown.
_URL = re.compile(
    r"""(?P<scheme>[^:/?\#]*)://
        (?:(?P<user>[^:/]*)(?::(?P<password>[^/]*))?@)?
        (?P<host>\[[^\]]*\]|[^:/?]*)
        (?::(?P<port>[^/?]*))?
        (?P<path>[/?].*)?""",
    re.VERBOSE | re.DOTALL,
)

#: `{app}`, `{name}`, or a misspelled one.
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

_NO_SECRET = Secret("")


@attrs.frozen
class RtmpUrl:
    """`rtmp[s]://[user:password@]host[:port]/app[/key]`.

    The first part of the path is the application; everything after it, with slashes and query, is the key. If the
    application has several parts, the key must be given separately (the argument `key` of `parse`).
    """

    scheme: str
    host: str
    port: int
    #: Whether the URL contains the port: some servers compare tcUrl with the URL that they expect.
    port_written: bool
    app: str
    #: The query of a URL without a key belongs to the application.
    app_query: Secret = _NO_SECRET
    key: Secret = _NO_SECRET
    user: str = ""
    password: Secret = _NO_SECRET

    @classmethod
    def parse(cls, text: str, key: Secret | None = None) -> RtmpUrl:
        """Parse a URL.

        Args:
            key: The stream key, if it is given separately: then the whole path is the application.
        """
        parts = _URL.fullmatch(text)
        if parts is None:
            raise ConfigError(
                "it is not an RTMP URL: rtmp://host/app/key or rtmps://host/app/key is expected"
            )
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
            raise ConfigError("its application contains control characters")
        # A key that is given separately may contain braces.
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
        return self.scheme == "rtmps"

    @property
    def identity(self) -> tuple[str, str, int, str, Secret, Secret]:
        """Equal for two URLs of the same stream on the same server, even if they are written differently."""
        return self.scheme, self.host.lower(), self.port, self.app, self.app_query, self.key

    def filled_in(self, app: str, name: str) -> RtmpUrl:
        """The URL for one source: `{app}` and `{name}` are replaced by its own, and its name is the default key."""
        replaced = self.key.reveal().replace("{app}", app).replace("{name}", name) if self.key else name
        return attrs.evolve(
            self, app=self.app.replace("{app}", app).replace("{name}", name), key=Secret(replaced)
        )

    @property
    def location(self) -> str:
        """`host:port/app`, which contains no secret.

        If the application has several parts, only the first is shown: a user who gives the key separately may have left
        it in the URL as well.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        first, more, _ = self.app.partition("/")
        return f"{host}:{self.port}/{first}" + ("/..." if more else "")

    @property
    def tc_url(self) -> str:
        """The URL without the key, as servers expect it in `connect`. Its query is secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port_written else ""
        return f"{self.scheme}://{host}{port}/{self.app_with_query}"

    @property
    def app_with_query(self) -> str:
        """The application as `connect` names it. Its query is secret."""
        query = self.app_query.reveal()
        return f"{self.app}?{query}" if query else self.app

    def __str__(self) -> str:
        """The URL without user, password, query and key."""
        return f"{self.scheme}://{self.location}" + ("/***" if self.key else "")


def _refuse_unknown_placeholders(text: str) -> None:
    for name in _PLACEHOLDER.findall(text):
        if name not in ("app", "name"):
            raise ConfigError("it contains an unknown placeholder: only {app} and {name} are known")


def _split_path(path: str, key_is_separate: bool) -> tuple[str, str, str]:
    """Application, its query, and key."""
    path = path.removeprefix("/")
    if key_is_separate:
        app, _, query = path.partition("?")
        return app.strip("/"), query, ""
    app, slash, key = path.partition("/")
    if "?" in app:
        # A query before any slash belongs to the application, including its own slashes.
        app, _, query = path.partition("?")
        return app, query, ""
    return app, "", key if slash else ""


def _refuse_bad_host(host: str) -> None:
    try:
        host.encode("idna")
    except UnicodeError:
        raise ConfigError("its host is not a valid host name") from None
    if not host.isprintable() or not set(host).isdisjoint(" []@"):
        raise ConfigError("its host contains characters that are not allowed in a host name")


def _refuse_unsendable(*texts: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ConfigError("it contains characters that cannot be sent") from None


def _port(text: str | None, scheme: str) -> int:
    if text is None:
        return DEFAULT_PORTS[scheme]
    # The text is not shown: if the password contains a slash, it is the beginning of the password.
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ConfigError(
            "its port is wrong: a number from 1 to 65535 is expected; write a slash in a password as %2F"
        )
    return int(text)
