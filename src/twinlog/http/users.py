"""Users of the HTTP port: names, roles and stored passwords.

The user file is a properties file with a line per user: `ann: {viewer}{scrypt}15$8$1$...`. A password without
`{scrypt}` is plain text; a user without a role is an operator.
"""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from twinlog.config.problems import Problems
from twinlog.config.properties import properties_text, read_properties
from twinlog.errors import ConfigError

Role = Literal["viewer", "operator"]

_HASHED: Final = re.compile(
    r"\{scrypt\}(\d{1,2})\$(\d{1,2})\$(\d{1,2})\$([A-Za-z0-9+/=]{16,64})\$([A-Za-z0-9+/=]{43,88})"
)
_PREFIX: Final = re.compile(r"\{([A-Za-z0-9_-]+)\}")
_COST: Final = (15, 8, 1)  # log2 of N, r, p: 32 MiB and some 0.1 s
_MAX_MEMORY: Final = 128 << 20  # for a hash in a user file


@dataclass(frozen=True, slots=True)
class User:
    name: str
    secret: str = field(repr=False)  # the password, or its hash
    role: Role = "operator"
    hashed: bool = False

    def has(self, password: str) -> bool:
        """Whether it is the user's password; takes about 0.1 s if hashed."""
        if not self.hashed:
            return hmac.compare_digest(password.encode(), self.secret.encode())
        cost, block, parallel, salt, expected = _parts(self.secret)
        return hmac.compare_digest(_scrypt(password, salt, cost, block, parallel), expected)


def plain_users(passwords: Mapping[str, str]) -> dict[str, User]:
    """Operators with plain passwords."""
    return {name: User(name, password) for name, password in passwords.items()}


def hashed_password(password: str, salt: bytes | None = None) -> str:
    """The password as stored in a user file."""
    chosen = salt or os.urandom(16)
    cost, block, parallel = _COST
    key = _scrypt(password, chosen, cost, block, parallel)
    return f"{{scrypt}}{cost}${block}${parallel}${_text(chosen)}${_text(key)}"


def line_of(name: str, password: str, role: Role) -> str:
    """A line of a user file."""
    return properties_text({name: f"{{{role}}}{hashed_password(password)}"}).strip()


def read_users(file: Path, *, of_connect: bool = False) -> dict[str, User]:
    """`of_connect`: as read by Connect's PropertyFileLoginModule: plain passwords, every user an operator.

    With an empty file, that module accepts every login; here an empty file is an error.
    """
    try:
        text = file.read_text(encoding="latin-1" if of_connect else "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or 'not a text file'}") from error
    problems = Problems()
    values = {name: value.text for name, value in read_properties(text, str(file), problems).items()}
    if problems.errors:
        raise ConfigError(
            f"{problems.found[0].where}: expected user: password"
        )  # the problem's text may quote the line
    if not values or not all(name and password for name, password in values.items()):
        raise ConfigError(f"{file}: no users, or a user without a name or password; expected lines of user: password")
    if of_connect:
        return plain_users(values)
    return {name: _user(name, value, file) for name, value in values.items()}


def _user(name: str, value: str, file: Path) -> User:
    role: Role = "operator"
    rest = value
    while found := _PREFIX.match(rest):
        if found[1] == "scrypt":
            try:
                _parts(rest)
            except ValueError:
                raise ConfigError(
                    f"{file}: user {name}: invalid password hash; create a new line with twinlog hash-password"
                ) from None
            return User(name, rest, role, hashed=True)
        if found[1] not in ("viewer", "operator"):
            raise ConfigError(
                f"{file}: user {name}: unknown prefix {found[0]}, expected {{viewer}}, {{operator}} or {{scrypt}}; "
                "if it is part of the password, hash the password"
            )
        role = "viewer" if found[1] == "viewer" else "operator"
        rest = rest[found.end() :].strip()
    if not rest:
        raise ConfigError(f"{file}: user {name}: no password after the role")
    return User(name, rest, role)


def _parts(secret: str) -> tuple[int, int, int, bytes, bytes]:
    found = _HASHED.fullmatch(secret)
    if found is None:
        raise ValueError("not a hash")
    cost, block, parallel = int(found[1]), int(found[2]), int(found[3])
    if not (10 <= cost <= 20 and block >= 1 and parallel >= 1 and 128 * block << cost <= _MAX_MEMORY):
        raise ValueError("cost out of range")
    return cost, block, parallel, base64.b64decode(found[4], validate=True), base64.b64decode(found[5], validate=True)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode(), salt=salt, n=1 << cost, r=block, p=parallel, maxmem=_MAX_MEMORY + (8 << 20), dklen=32
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
