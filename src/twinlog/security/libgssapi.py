"""Calls the system's Kerberos library (MIT libgssapi_krb5) through ctypes: the part of GSSAPI that a SASL login needs.

Python packages for GSSAPI need a compiler and Kerberos headers to install. The library's handles are released by their
Python objects' finalizers.
"""

import ctypes
import ctypes.util
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any, Final

from twinlog.errors import ConfigError

_NAMES: Final = ("libgssapi_krb5.so.2", "libgssapi_krb5.dylib")
_FLAGS: Final = 2 | 4 | 8 | 32  # mutual authentication, replay detection, sequence detection, integrity
_CONTINUE: Final = 1
_INITIATE: Final = 1
_INDEFINITE: Final = 0xFFFFFFFF
_ERROR: Final = 0xFFFF0000
_KERBEROS_ERRORS: Final = -1765328384  # the first of Kerberos' error codes


class _Buffer(Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _Oids(Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Pair(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Pairs(Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


def _oid(content: bytes) -> _Oid:
    return _Oid(len(content), content)


_KERBEROS: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_PRINCIPAL: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")
_SERVICE: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")

_BUFFER, _OID, _OUT = POINTER(_Buffer), POINTER(_Oid), POINTER(c_uint32)
_SIGNATURES: Final = {
    "gss_import_name": (_BUFFER, _OID, POINTER(c_void_p)),
    "gss_acquire_cred_from": (
        c_void_p, c_uint32, POINTER(_Oids), c_int, POINTER(_Pairs), POINTER(c_void_p), c_void_p, c_void_p,
    ),
    "gss_init_sec_context": (
        c_void_p, POINTER(c_void_p), c_void_p, _OID, c_uint32, c_uint32, c_void_p, _BUFFER, c_void_p, _BUFFER, c_void_p,
        c_void_p,
    ),
    "gss_wrap": (c_void_p, c_int, c_uint32, _BUFFER, c_void_p, _BUFFER),
    "gss_unwrap": (c_void_p, _BUFFER, _BUFFER, c_void_p, c_void_p),
    "gss_display_status": (c_uint32, c_int, _OID, _OUT, _BUFFER),
    "gss_release_buffer": (_BUFFER,),
    "gss_release_name": (POINTER(c_void_p),),
    "gss_release_cred": (POINTER(c_void_p),),
    "gss_delete_sec_context": (POINTER(c_void_p), c_void_p),
}  # fmt: skip


class GssError(Exception):
    """`code` is Kerberos' (RFC 4120, 7.5.9; above 127 the library's own), or -1."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@cache
def _library() -> Any:
    for name in (*_NAMES, ctypes.util.find_library("gssapi_krb5")):
        try:
            found = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if found is not None and hasattr(found, "gss_acquire_cred_from"):
            for function, arguments in _SIGNATURES.items():
                call = getattr(found, function)
                call.argtypes, call.restype = (_OUT, *arguments), c_uint32
            return found
    raise ConfigError(
        "sasl.mechanism = GSSAPI: the MIT Kerberos library is not installed",
        "install libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (Red Hat)",
    )


def _call(function: str, *arguments: Any) -> int:
    """1 if another step is needed, else 0."""
    minor = c_uint32()
    major = int(getattr(_library(), function)(byref(minor), *arguments))
    if major & _ERROR:
        code = c_int(minor.value).value - _KERBEROS_ERRORS
        raise GssError(_message(major, minor.value), code if 0 <= code < 512 else -1)
    return major & _CONTINUE


def _message(major: int, minor: int) -> str:
    texts = []
    for status, kind in ((major, 1), (minor, 2)):
        out, more, ignored = _Buffer(), c_uint32(), c_uint32()
        _library().gss_display_status(byref(ignored), status, kind, byref(_KERBEROS), byref(more), byref(out))
        if text := _consume(out).decode(errors="replace").strip():
            texts.append(text)
    return texts[-1] if texts else f"status {major:#x}"  # the minor status is the cause, the major only its class


def _buffer(content: bytes) -> _Buffer:
    return _Buffer(len(content), ctypes.cast(c_char_p(content), c_void_p))


def _consume(buffer: _Buffer) -> bytes:
    """Copies and releases a buffer allocated by the library."""
    try:
        return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    finally:
        _library().gss_release_buffer(byref(c_uint32()), byref(buffer))


def _call_with_output(function: str, out: _Buffer, *arguments: Any) -> tuple[int, bytes]:
    """A call that fills `out`, possibly even if it fails."""
    try:
        more = _call(function, *arguments)
    except GssError:
        _consume(out)
        raise
    return more, _consume(out)


class _Handle:
    """A handle of the library, released with this object."""

    _release: str
    _more: tuple[None, ...] = ()

    def __init__(self) -> None:
        self.handle = c_void_p()
        self._free = getattr(_library(), self._release)

    def __del__(self) -> None:
        if self.handle:
            self._free(byref(c_uint32()), byref(self.handle), *self._more)


class _Name(_Handle):
    _release = "gss_release_name"

    def __init__(self, text: str, kind: _Oid) -> None:
        super().__init__()
        content = text.encode()
        _call("gss_import_name", byref(_buffer(content)), byref(kind), byref(self.handle))


class Credentials(_Handle):
    """Tickets of a principal. `store`: their source (`client_keytab`, `ccache`); empty for the system's default."""

    _release = "gss_release_cred"

    def __init__(self, principal: str, store: Mapping[str, str]) -> None:
        super().__init__()
        name = _Name(principal, _PRINCIPAL) if principal else None
        pairs = (_Pair * len(store))(*(_Pair(key.encode(), text.encode()) for key, text in store.items()))
        _call(
            "gss_acquire_cred_from",
            name.handle if name else None,
            _INDEFINITE,
            byref(_Oids(1, ctypes.pointer(_KERBEROS))),
            _INITIATE,
            byref(_Pairs(len(store), pairs)) if store else None,
            byref(self.handle),
            None,
            None,
        )


class Context(_Handle):
    """A security context with a service, such as `kafka` on a host."""

    _release = "gss_delete_sec_context"
    _more = (None,)

    def __init__(self, credentials: Credentials, service: str, host: str) -> None:
        super().__init__()
        self._credentials = credentials
        self._target = _Name(f"{service}@{host}", _SERVICE)
        self.done = False

    def step(self, token: bytes = b"") -> bytes:
        """The next token for the service, in reply to its `token`."""
        out = _Buffer()
        more, reply = _call_with_output(
            "gss_init_sec_context",
            out,
            self._credentials.handle,
            byref(self.handle),
            self._target.handle,
            byref(_KERBEROS),
            _FLAGS,
            0,
            None,
            byref(_buffer(token)) if token else None,
            None,
            byref(out),
            None,
            None,
        )
        self.done = not more
        return reply

    def wrap(self, content: bytes) -> bytes:
        out = _Buffer()
        return _call_with_output("gss_wrap", out, self.handle, 0, 0, byref(_buffer(content)), None, byref(out))[1]

    def unwrap(self, content: bytes) -> bytes:
        out = _Buffer()
        return _call_with_output("gss_unwrap", out, self.handle, byref(_buffer(content)), byref(out), None, None)[1]
