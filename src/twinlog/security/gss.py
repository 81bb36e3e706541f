"""The system's Kerberos library (MIT's libgssapi_krb5), called as it is: of GSSAPI just what one SASL login needs.

No package of Python's is needed, and none would come without a compiler and Kerberos' headers. What the library hands
out is released when the object that holds it goes.
"""

import ctypes
import ctypes.util
from collections.abc import Mapping
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any, Final

from twinlog.errors import ConfigError

_NAMES: Final = ("libgssapi_krb5.so.2", "libgssapi_krb5.dylib")
_FLAGS: Final = 2 | 4 | 8 | 32  # the broker proves itself too; replay and sequence are watched; integrity
_CONTINUE: Final = 1
_INITIATE: Final = 1
_FOR_EVER: Final = 0xFFFFFFFF
_ERROR: Final = 0xFFFF0000
_KERBEROS_ERRORS: Final = -1765328384  # where its table of error codes begins


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
    """`code` is Kerberos' own (RFC 4120, 7.5.9, and the library's beyond 127), or -1."""

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
        "sasl.mechanism = GSSAPI needs MIT Kerberos' library on this machine: install "
        "libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (Red Hat)"
    )


def _call(function: str, *arguments: Any) -> int:
    """Whether more is to come (1) or all is done (0)."""
    minor = c_uint32()
    major = int(getattr(_library(), function)(byref(minor), *arguments))
    if major & _ERROR:
        code = c_int(minor.value).value - _KERBEROS_ERRORS
        raise GssError(_words(major, minor.value), code if 0 <= code < 512 else -1)
    return major & _CONTINUE


def _words(major: int, minor: int) -> str:
    said = []
    for status, kind in ((major, 1), (minor, 2)):
        out, more, ignored = _Buffer(), c_uint32(), c_uint32()
        _library().gss_display_status(byref(ignored), status, kind, byref(_KERBEROS), byref(more), byref(out))
        if text := _taken(out).decode(errors="replace").strip():
            said.append(text)
    return said[-1] if said else f"status {major:#x}"  # the second says why, the first only what kind


def _buffer(content: bytes) -> _Buffer:
    return _Buffer(len(content), ctypes.cast(c_char_p(content), c_void_p))


def _taken(buffer: _Buffer) -> bytes:
    """A buffer of the library's, copied and given back."""
    try:
        return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    finally:
        _library().gss_release_buffer(byref(c_uint32()), byref(buffer))


def _answer(function: str, out: _Buffer, *arguments: Any) -> tuple[int, bytes]:
    """Of a call that fills `out`, which it may do even where it fails."""
    try:
        more = _call(function, *arguments)
    except GssError:
        _taken(out)
        raise
    return more, _taken(out)


class _Held:
    """A handle of the library's, and how it is given back."""

    _release: str
    _more: tuple[None, ...] = ()

    def __init__(self) -> None:
        self.handle = c_void_p()
        self._free = getattr(_library(), self._release)

    def __del__(self) -> None:
        if self.handle:
            self._free(byref(c_uint32()), byref(self.handle), *self._more)


class _Name(_Held):
    _release = "gss_release_name"

    def __init__(self, text: str, kind: _Oid) -> None:
        super().__init__()
        content = text.encode()
        _call("gss_import_name", byref(_buffer(content)), byref(kind), byref(self.handle))


class Credentials(_Held):
    """Tickets for a principal. `store` says where from: `client_keytab`, `ccache`; nothing for the system's default."""

    _release = "gss_release_cred"

    def __init__(self, principal: str, store: Mapping[str, str]) -> None:
        super().__init__()
        name = _Name(principal, _PRINCIPAL) if principal else None
        pairs = (_Pair * len(store))(*(_Pair(key.encode(), text.encode()) for key, text in store.items()))
        _call(
            "gss_acquire_cred_from",
            name.handle if name else None,
            _FOR_EVER,
            byref(_Oids(1, ctypes.pointer(_KERBEROS))),
            _INITIATE,
            byref(_Pairs(len(store), pairs)) if store else None,
            byref(self.handle),
            None,
            None,
        )


class Context(_Held):
    """A conversation with a service, `kafka` at a host."""

    _release = "gss_delete_sec_context"
    _more = (None,)

    def __init__(self, credentials: Credentials, service: str, host: str) -> None:
        super().__init__()
        self._credentials = credentials
        self._target = _Name(f"{service}@{host}", _SERVICE)
        self.done = False

    def step(self, token: bytes = b"") -> bytes:
        """What the service is told next, in answer to what it said."""
        out = _Buffer()
        more, told = _answer(
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
        return told

    def wrap(self, content: bytes) -> bytes:
        out = _Buffer()
        return _answer("gss_wrap", out, self.handle, 0, 0, byref(_buffer(content)), None, byref(out))[1]

    def unwrap(self, content: bytes) -> bytes:
        out = _Buffer()
        return _answer("gss_unwrap", out, self.handle, byref(_buffer(content)), byref(out), None, None)[1]
