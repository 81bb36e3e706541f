"""Answers in Connect's form. An error is JSON as well: a code, which is HTTP's, and a sentence."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(content, status, headers)


def empty(status: int) -> Response:
    """202 and 204: nothing but the status."""
    return Response(status_code=status)


def refusal(status: int, message: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Without a message of its own, in the words that every JAX-RS server uses."""
    return answer({"error_code": status, "message": message or standard(status)}, status, headers)


def standard(status: int) -> str:
    return f"HTTP {status} {HTTPStatus(status).phrase}"
