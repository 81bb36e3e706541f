"""After a failed authentication the same credentials wait before they are used again; others do not wait."""

import pytest

from twinlog.errors import AuthenticationError
from twinlog.kafka.auth_backoff import AuthBackoff


def test_pauses_grow_up_to_a_limit() -> None:
    now = 0.0
    backoff = AuthBackoff(lambda: now)
    backoff.check("a")
    pauses = []
    for _ in range(9):
        backoff.failed("a", AuthenticationError("wrong password"))
        began = now
        while True:
            now += 0.25
            try:
                backoff.check("a")
            except AuthenticationError as error:
                assert str(error) == "wrong password"  # noqa: PT017
                assert not error.retriable  # noqa: PT017
            else:
                break
        pauses.append(now - began)
        backoff.check("b")
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    backoff.succeeded("a")
    backoff.failed("a", AuthenticationError("down", retriable=True))
    now += 0.5
    backoff.check("a")


def test_retriable_errors_have_a_lower_limit() -> None:
    now = 0.0
    backoff = AuthBackoff(lambda: now)
    for _ in range(20):
        backoff.failed("a", AuthenticationError("expired", retriable=True))
    now = 4.9
    with pytest.raises(AuthenticationError, match="expired"):
        backoff.check("a")
    now = 5.0
    backoff.check("a")
