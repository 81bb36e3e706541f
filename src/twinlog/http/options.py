"""The command-line options of the HTTP port. Imports nothing of the server, so that commands start fast."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """Address, TLS and users."""

    host: str = "127.0.0.1"
    port: int = 8083
    certificate: Path | None = None
    key: Path | None = None
    users: Path | None = None
    hosts: tuple[str, ...] = ()  # accepted Host headers, in addition to the machine's own names
    client_ca: Path | None = None  # mTLS: clients must present a certificate of these authorities
    insecure: bool = False  # allow passwords without TLS

    @property
    def login(self) -> bool:
        return self.users is not None or self.client_ca is not None
