"""Where an endpoint is: the one host and port that a run may reach."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from workbench.errors import SettingsError

PORTS = {"http": 80, "https": 443}
API = "/v1"
ROUTES = ("/chat/completions", "/completions", "/models")
"""What an address copied from another program's settings may end with."""


@dataclass(frozen=True)
class Address:
    """A server's scheme, host, port and the path its routes begin with, without the API's own /v1."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def host_header(self) -> str:
        """What the request names as its host."""
        return str(self).partition("://")[2].removesuffix(self.path)

    @property
    def is_encrypted(self) -> bool:
        """Whether it is reached by https."""
        return self.scheme == "https"

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine's own loopback."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def api(self, route: str) -> str:
        """The path of a route of the API, as in completions."""
        return f"{self.path}{API}/{route}"

    def root(self, route: str) -> str:
        """The path of a route beside the API, as in metrics."""
        return f"{self.path}/{route}"


def parse_address(url: str) -> Address:
    """The address of a URL, with or without the API's /v1, or a route of it, at its end.

    Raises SettingsError for what is no http address, and for one with a user, a password or a query: those are kept
    with the run, and a key must not be.
    """
    text = url.strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"The endpoint can't be read as an address: {error}. {_EXAMPLE}") from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise SettingsError(
            "The endpoint's address holds a user, a password or a query, which would be kept with the run. Give the "
            "address alone, and the key in the environment variable WORKBENCH_API_KEY or with --ask-key."
        )
    if parts.scheme not in PORTS or not parts.hostname or any(not c.isprintable() or c == " " for c in text):
        raise SettingsError(f"The endpoint {text!r} is no http address. {_EXAMPLE}")
    path = parts.path.rstrip("/")
    for route in ROUTES:
        path = path.removesuffix(route)
    return Address(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path.removesuffix(API))


_EXAMPLE = "Write it as in http://127.0.0.1:8080 or https://host/v1."
