"""Decodes responses that are not on the hot path, with kafka-python but safe against malformed data.

kafka-python has two decoders. The compiled one reads varints of any length (a run of 0xff keeps it busy for days) and
copies the rest of the response for each unknown field. The other, field by field, does neither and detects truncated
strings; it takes 60 us for a partition of a Metadata response instead of 15.
"""

import io
from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from twinlog.errors import ProtocolError
from twinlog.text import one_line

MAX_RESPONSE_BYTES: Final = 64 << 20  # without records; as Python objects they may take thirty times as much

_Fields = list[tuple[str, bool, bool, Any]]  # name, nullable, is a list, inner structure (None: nothing to check)
_fields: dict[tuple[int, int], _Fields] = {}  # by (id of the structure, version)


def decode(kind: Any, version: int, body: bytes | bytearray) -> Any:
    """`kind` is the class of the response. A malformed one raises ProtocolError, and no other error."""
    try:
        data = io.BytesIO(body)
        kind.parse_header(data, version=version)
        flexible = kind.flexible_version_q(version)
        structure: Any = super(ApiMessage, kind)
        response = structure.decode(data, version=version, compact=flexible, tagged=flexible, data_class=kind[None])
        _check_nulls(response, kind._struct, version)  # noqa: SLF001  # the schema has no public accessor
    except Exception as error:
        what = one_line(f"{type(error).__name__}: {error}")
        raise ProtocolError(f"malformed {kind.name} (version {version}): {what}") from error
    return response


def first(items: Sequence[Any]) -> Any:
    """The item of a response to a request about a single item."""
    if not items:
        raise ProtocolError("malformed response: it lacks the requested item")
    return items[0]


def is_address(host: str, port: int) -> bool:
    """Whether this can be a broker's address. For others, sockets raise errors of various types."""
    try:
        return 0 < port < 1 << 16 and 0 < len(host.encode("idna")) < 256 and host.isprintable()
    except UnicodeError:
        return False


def _check_nulls(item: Any, structure: Any, version: int) -> None:
    """kafka-python accepts null in every field, also where the schema does not allow it."""
    for name, nullable, many, inner in _fields.get((id(structure), version)) or _fields_of(structure, version):
        value = getattr(item, name)
        if value is None:
            if not nullable:
                raise ValueError(f"{name} is null")
        elif inner is None:
            if many and None in value:
                raise ValueError(f"one of {name} is null")
        elif many:
            for each in value:
                _check_nulls(each, inner, version)
        else:
            _check_nulls(value, inner, version)


def _fields_of(structure: Any, version: int) -> _Fields:
    """The fields that could be null although the schema forbids it. (A UUID of None means 0.)"""
    found: _Fields = []
    for each in structure.untagged_fields(version):
        many = each.is_array()
        inner = each.array_of if each.is_struct_array() else each if each.is_struct() else None
        if many or inner is not None or each.type_str in {"string", "bytes"}:
            found.append((each.name, each.nullable_for_version_q(version), many, inner))
    _fields[id(structure), version] = found
    return found
