"""What others say, made fit for one line of a message: a broker's or a token endpoint's words are anyone's."""

from collections.abc import Iterable

from twinlog.config.values import MASK

_LONGEST = 200


def one_line(text: str, hidden: Iterable[str] = ()) -> str:
    """Printable, short, on one line; without those texts that must not be seen, should they be quoted back to us."""
    for secret in filter(None, hidden):
        text = text.replace(secret, MASK)
    words = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * _LONGEST]).split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
