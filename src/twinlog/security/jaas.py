"""Parses `sasl.jaas.config`, a login module with its options, exactly as Kafka's JaasConfig does.

Kafka uses Java's StreamTokenizer, with its oddities: a line break ends a quoted string, a bare `/` starts a comment,
an unquoted number is not a value. Errors name the position and never quote the text: after a missing quote any part of
it may be a password.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from twinlog.config.flows import Client
from twinlog.errors import ConfigError

KEY: Final = "sasl.jaas.config"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"
AWS: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
_KNOWN: Final = (PLAIN, SCRAM, OAUTH, KERBEROS, AWS)
_FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_MAX_LENGTH: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: dict[str, str] = field(repr=False)

    @property
    def kind(self) -> str:
        """One of the constants above, also if a shaded jar gives its classes a prefix; else the name."""
        return next((known for known in _KNOWN if f".{self.name}".endswith(f".{known}")), self.name)

    @property
    def short(self) -> str:
        """For messages. A name that is not a known class is not shown: it may be anything, even a password."""
        return self.kind.rpartition(".")[2] if self.kind in _KNOWN else "the login module"

    def required(self, option: str) -> str:
        """The option's value. With Kafka's client a missing one only shows as a failed login."""
        if not (text := self.options.get(option)):
            raise ConfigError(f"{KEY}: {self.short} has no {option}", f'add {option}="..." before the semicolon')
        return text

    def flag(self, option: str) -> bool:
        """As Krb5LoginModule and ScramLoginModule parse a boolean."""
        return self.options.get(option, "").lower() == "true"


def login_module(config: Client) -> LoginModule:
    """The only login module of a client's settings. ConfigError if there is none, or more than one."""
    text = config[KEY]
    if text is None:
        raise ConfigError(
            f"{KEY} is missing: security.protocol = {config['security.protocol']} requires it",
            "set it (JAAS files are not read)",
        )
    modules = parse(text)
    if len(modules) != 1:
        raise ConfigError(f"{KEY}: {len(modules)} login modules, expected one", "remove the others")
    return modules[0]


def parse(text: str) -> list[LoginModule]:
    """Every login module of the text; ConfigError if Kafka would reject it."""
    if len(text) > _MAX_LENGTH:
        raise ConfigError(f"{KEY}: longer than {_MAX_LENGTH} characters", "check the value")
    tokens = _tokens(text)
    modules = [_module(token, tokens) for token in tokens]
    if not modules:
        raise ConfigError(f"{KEY} is empty", 'write <login module> required <option>="<value>";')
    return modules


@dataclass(frozen=True, slots=True, repr=False)
class _Token:
    mark: str  # the character itself, a quote, or `word` and `number`
    text: str | None = None  # of words and quoted strings


def _module(name: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if not name.text:
        raise ConfigError(f"{KEY}: no login module at the beginning", "begin with its class name")
    flag = next(tokens, None)
    if flag is None or (flag.text or "").upper() not in _FLAGS:
        raise ConfigError(f"{KEY}: no control flag after the login module", f"add one of {', '.join(_FLAGS).lower()}")
    options: dict[str, str] = {}
    for number, key in enumerate(tokens, 1):
        if key.mark == ";":
            return LoginModule(name.text, options)
        value = next(tokens, None) if _is(next(tokens, None), "=") else None
        if value is None or value.text is None:
            raise ConfigError(
                f'{KEY}: option {number} is not name="value"',
                "quote every value, and put a backslash before each quote and backslash in it",
            )
        if key.text is not None:  # Kafka keeps the value of a null key too
            options[key.text] = value.text
    raise ConfigError(f"{KEY}: no semicolon at the end", "add it, or a missing closing quote")


def _is(token: _Token | None, mark: str) -> bool:
    return token is not None and token.mark == mark


# Java's StreamTokenizer, as Kafka configures it

_END: Final = ""  # returned by a reader after the last character
_LINE_ENDS: Final = ("\n", "\r", _END)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _is_number(char: str) -> bool:
    return char != _END and char in "0123456789.-"


def _is_word(char: str) -> bool:
    return char != _END and (("a" <= char <= "z") or ("A" <= char <= "Z") or char >= "\xa0" or char in "-_$")


class _Reader:
    """Reads single characters; one may be put back."""

    def __init__(self, text: str) -> None:
        self._chars = iter(text)
        self._back: str | None = None

    def read(self) -> str:
        if self._back is None:
            return next(self._chars, _END)
        char, self._back = self._back, None
        return char

    def put_back(self, char: str) -> None:
        self._back = char


def _tokens(text: str) -> Iterator[_Token]:
    reader = _Reader(text)
    while (char := reader.read()) != _END:
        if char <= " ":
            continue
        if _is_number(char):  # before words: `-` may begin either, and Java tries a number first
            yield _number(char, reader)
        elif _is_word(char):
            yield _word(char, reader)
        elif char in "\"'":
            yield _quoted(char, reader)
        elif char == "/":
            _skip_comment(reader)
        else:
            yield _Token(char)


def _number(char: str, reader: _Reader) -> _Token:
    if char == "-":
        char = reader.read()
        if char == "-" or not _is_number(char):
            reader.put_back(char)
            return _Token("-")
    dots = 0
    while char != _END and ("0" <= char <= "9" or (char == "." and not dots)):
        dots += char == "."
        char = reader.read()
    reader.put_back(char)
    return _Token("number")


def _word(char: str, reader: _Reader) -> _Token:
    found = []
    while _is_word(char) or _is_number(char):
        found.append(char)
        char = reader.read()
    reader.put_back(char)
    return _Token("word", "".join(found))


def _quoted(quote: str, reader: _Reader) -> _Token:
    found = []
    char = reader.read()
    while char not in (quote, *_LINE_ENDS):
        if char == "\\":
            escaped, char = _escape(reader)
            found.append(escaped)
        else:
            found.append(char)
            char = reader.read()
    if char != quote:
        reader.put_back(char)
    return _Token(quote, "".join(found))


def _escape(reader: _Reader) -> tuple[str, str]:
    r"""An escape such as `\n` or `\377` after its backslash, and the character that follows it."""
    char = reader.read()
    if char == _END or not "0" <= char <= "7":
        return _ESCAPES.get(char, char), reader.read()
    digits = char
    most = 3 if char <= "3" else 2
    char = reader.read()
    while len(digits) < most and char != _END and "0" <= char <= "7":
        digits += char
        char = reader.read()
    return chr(int(digits, 8)), char


def _skip_comment(reader: _Reader) -> None:
    kind = reader.read()
    if kind != "*":
        # `// ...`, and a bare `/` too: the character after it is already consumed, even if it was a line end.
        while (char := reader.read()) not in _LINE_ENDS:
            pass
        reader.put_back(char)
        return
    before = ""
    while (char := reader.read()) != "/" or before != "*":
        if char == "\r":
            char = reader.read()
            if char == "\n":
                char = reader.read()
        elif char == "\n":
            char = reader.read()
        if char == _END:
            return
        before = char
