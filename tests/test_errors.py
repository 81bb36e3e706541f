"""The parts of an error's message are kept as data."""

import copy
import pickle

import pytest

from twinlog.errors import AuthenticationError, JavaError, TwinlogError, UnreachableError

ERRORS = [
    (TwinlogError("it is wrong"), "it is wrong", "it is wrong", ""),
    (
        TwinlogError("x = y: it is wrong", "change it"),
        "x = y: it is wrong; change it",
        "x = y: it is wrong",
        "change it",
    ),
    (JavaError("no Java", "install it", missing=True), "no Java; install it", "no Java", "install it"),
    (UnreachableError("refused", address="a:1"), "a:1: refused", "a:1: refused", ""),
    (
        AuthenticationError("wrong password", "check it", address="a:1", retriable=True),
        "a:1: wrong password; check it",
        "a:1: wrong password",
        "check it",
    ),
]


@pytest.mark.parametrize(("error", "message", "problem", "advice"), ERRORS)
def test_problem_and_advice(error: TwinlogError, message: str, problem: str, advice: str) -> None:
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(each), each.problem, each.advice) == (message, problem, advice)
        assert vars(each) == vars(error)


def test_the_cause_does_not_name_the_address() -> None:
    assert UnreachableError("refused", address="a:1").cause == "refused"
    assert AuthenticationError("wrong password", "check it").cause == "wrong password"
