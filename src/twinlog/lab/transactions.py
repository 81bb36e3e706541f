"""A transactional producer in slow motion: each step is one request, and nothing is tidied up behind it.

Kafka's clients abort what is open when they are closed. This one leaves a transaction open for as long as is asked.
"""

import struct
from collections.abc import Sequence

from twinlog.lab import batches
from twinlog.lab.batches import Record
from twinlog.lab.wire import Answer, RefusedError, Wire, again, text_bytes

_FIND_COORDINATOR, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _END = (10, 2), (22, 1), (24, 2), (26, 2)
_NOT_YET = {14, 15, 16, 51}  # the coordinator loads or moves, or has not finished the last transaction
_TRANSACTIONAL = 0x10


def producer_id(wire: Wire) -> tuple[int, int]:
    """Id and epoch of an idempotent producer without transactions."""
    wanted = text_bytes(None) + struct.pack(">i", -1)
    return again(lambda: _init(wire.ask_any(_INIT_PRODUCER_ID, wanted)), _NOT_YET)


class Transactions:
    """`transactional_id`'s next life: what an earlier one has left open is aborted first."""

    def __init__(self, wire: Wire, transactional_id: str, timeout: float = 600) -> None:
        self._wire = wire
        self._id = text_bytes(transactional_id)
        self._name = transactional_id
        self._sequences: dict[tuple[str, int], int] = {}
        self._added: set[tuple[str, int]] = set()
        self._coordinator = self._find()
        wanted = self._id + struct.pack(">i", int(timeout * 1000))
        self.producer_id, self.epoch = again(lambda: _init(self._ask(_INIT_PRODUCER_ID, wanted)), _NOT_YET)

    def produce(self, topic: str, partition: int, records: Sequence[Record], codec: str = "none") -> int:
        """The batch's offset; a transaction begins with its first batch."""
        place = (topic, partition)
        if place not in self._added:
            body = self._whom() + struct.pack(">i", 1) + text_bytes(topic) + struct.pack(">ii", 1, partition)
            again(lambda: self._add(body), _NOT_YET)
            self._added.add(place)
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(records)
        producer = (self.producer_id, self.epoch, sequence)
        batch = batches.encode(records, codec, producer=producer, attributes=_TRANSACTIONAL)
        return self._wire.produce(topic, partition, batch, self._name)

    def commit(self) -> None:
        self._end(b"\x01")

    def abort(self) -> None:
        self._end(b"\x00")

    def _end(self, commit: bytes) -> None:
        def end() -> None:
            _, code = self._ask(_END, self._whom() + commit).unpack(">ih")
            _check(code, f"ending {self._name}'s transaction")

        again(end, _NOT_YET)
        self._added.clear()

    def _find(self) -> tuple[str, int]:
        def find() -> tuple[str, int]:
            answer = self._wire.ask_any(_FIND_COORDINATOR, self._id + b"\x01")
            _, code = answer.unpack(">ih")
            _check(code, f"looking for {self._name}'s coordinator")
            answer.text()
            answer.skip(4)
            host = answer.text() or ""
            return host, answer.unpack(">i")[0]

        return again(find, _NOT_YET)

    def _add(self, body: bytes) -> None:
        answer = self._ask(_ADD_PARTITIONS, body)
        answer.skip(8)
        answer.text()
        _, _, code = answer.unpack(">iih")
        _check(code, f"adding a partition to {self._name}'s transaction")

    def _whom(self) -> bytes:
        return self._id + struct.pack(">qh", self.producer_id, self.epoch)

    def _ask(self, api: tuple[int, int], body: bytes) -> Answer:
        return self._wire.ask(self._coordinator, api, body)


def _init(answer: Answer) -> tuple[int, int]:
    _, code, producer, epoch = answer.unpack(">ihqh")
    _check(code, "asking for a producer id")
    return producer, epoch


def _check(code: int, what: str) -> None:
    if code:
        raise RefusedError(what, code)
