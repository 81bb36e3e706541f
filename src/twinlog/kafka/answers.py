"""Answers to questions that are not on the hot path: read by kafka-python, with the care that strangers' bytes need.

kafka-python has two ways to read an answer. Its compiled one reads numbers of any length (a row of 0xff keeps it busy
for days), and copies all that follows for each field that it does not know. Its other way, field by field, does neither
and looks whether a text is whole; it takes 60 us for a partition in an answer to Metadata, against 15.
"""

import io
from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.api_message import ApiMessage

from twinlog.errors import ProtocolError
from twinlog.security.words import one_line

LARGEST: Final = 64 << 20  # bytes of an answer without records: as Python's objects they may be thirty times as many

_Fields = list[tuple[str, bool, bool, Any]]  # name, may be null, is a list, what it holds (None: nothing to look at)
_fields: dict[tuple[int, int], _Fields] = {}  # by (id of the structure, version)


def decode(kind: Any, version: int, body: bytes | bytearray) -> Any:
    """`kind` is the class of the answer. Raises ProtocolError for what makes no sense, and nothing else."""
    try:
        data = io.BytesIO(body)
        kind.parse_header(data, version=version)
        flexible = kind.flexible_version_q(version)
        structure: Any = super(ApiMessage, kind)
        answer = structure.decode(data, version=version, compact=flexible, tagged=flexible, data_class=kind[None])
        _look(answer, kind._struct, version)  # noqa: SLF001  # there is no other way to a schema
    except Exception as error:
        what = one_line(f"{type(error).__name__}: {error}")
        raise ProtocolError(f"an answer that makes no sense ({kind.name} {version}): {what}") from error
    return answer


def first(items: Sequence[Any]) -> Any:
    """What the answer to a question about one thing says of it."""
    if not items:
        raise ProtocolError("an answer that says nothing of what was asked")
    return items[0]


def is_address(host: str, port: int) -> bool:
    """Whether a broker can be there at all. For others sockets raise errors of all kinds."""
    try:
        return 0 < port < 1 << 16 and 0 < len(host.encode("idna")) < 256 and host.isprintable()
    except UnicodeError:
        return False


def _look(item: Any, structure: Any, version: int) -> None:
    """kafka-python takes null for a value everywhere. Whoever reads an answer relies on what its schema says."""
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
                _look(each, inner, version)
        else:
            _look(value, inner, version)


def _fields_of(structure: Any, version: int) -> _Fields:
    """Those that may be null by mistake. (A UUID that is None is 0.)"""
    found: _Fields = []
    for each in structure.untagged_fields(version):
        many = each.is_array()
        inner = each.array_of if each.is_struct_array() else each if each.is_struct() else None
        if many or inner is not None or each.type_str in {"string", "bytes"}:
            found.append((each.name, each.nullable_for_version_q(version), many, inner))
    _fields[id(structure), version] = found
    return found
