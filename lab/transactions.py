"""A transactional producer that sends one request per step and can leave a transaction open.

Kafka's clients abort open transactions when they are closed.
"""

import struct
from collections.abc import Sequence

from lab import batches
from lab.batches import Record
from lab.raw_protocol import BrokerError, RawProtocol, Response, retry, text_bytes

_FIND_COORDINATOR, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _END = (10, 2), (22, 1), (24, 2), (26, 2)
_NOT_YET = {14, 15, 16, 51}  # the coordinator is loading or moving, or is completing the previous transaction
_TRANSACTIONAL = 0x10


def producer_id(raw: RawProtocol) -> tuple[int, int]:
    """Id and epoch of an idempotent producer without transactions."""
    body = text_bytes(None) + struct.pack(">i", -1)
    return retry(lambda: _init(raw.send_any(_INIT_PRODUCER_ID, body)), _NOT_YET)


class Transactions:
    """A new producer with this transactional id: aborts a transaction that an earlier one has left open."""

    def __init__(self, raw: RawProtocol, transactional_id: str, timeout: float = 600) -> None:
        self._raw = raw
        self._id = text_bytes(transactional_id)
        self._name = transactional_id
        self._sequences: dict[tuple[str, int], int] = {}
        self._added: set[tuple[str, int]] = set()
        self._coordinator = self._find_coordinator()
        body = self._id + struct.pack(">i", int(timeout * 1000))
        self.producer_id, self.epoch = retry(lambda: _init(self._send(_INIT_PRODUCER_ID, body)), _NOT_YET)

    def produce(self, topic: str, partition: int, records: Sequence[Record], codec: str = "none") -> int:
        """The batch's offset; the first batch begins a transaction."""
        tp = (topic, partition)
        if tp not in self._added:
            body = self._producer() + struct.pack(">i", 1) + text_bytes(topic) + struct.pack(">ii", 1, partition)
            retry(lambda: self._add_partition(body), _NOT_YET)
            self._added.add(tp)
        sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = sequence + len(records)
        producer = (self.producer_id, self.epoch, sequence)
        batch = batches.encode(records, codec, producer=producer, attributes=_TRANSACTIONAL)
        return self._raw.produce(topic, partition, batch, self._name)

    def commit(self) -> None:
        self._end(b"\x01")

    def abort(self) -> None:
        self._end(b"\x00")

    def _end(self, commit: bytes) -> None:
        def end() -> None:
            _, code = self._send(_END, self._producer() + commit).unpack(">ih")
            _check(code, f"cannot end the transaction of {self._name}")

        retry(end, _NOT_YET)
        self._added.clear()

    def _find_coordinator(self) -> tuple[str, int]:
        def find() -> tuple[str, int]:
            response = self._raw.send_any(_FIND_COORDINATOR, self._id + b"\x01")
            _, code = response.unpack(">ih")
            _check(code, f"cannot find the coordinator of {self._name}")
            response.text()
            response.skip(4)
            host = response.text() or ""
            return host, response.unpack(">i")[0]

        return retry(find, _NOT_YET)

    def _add_partition(self, body: bytes) -> None:
        response = self._send(_ADD_PARTITIONS, body)
        response.skip(8)
        response.text()
        _, _, code = response.unpack(">iih")
        _check(code, f"cannot add a partition to the transaction of {self._name}")

    def _producer(self) -> bytes:
        return self._id + struct.pack(">qh", self.producer_id, self.epoch)

    def _send(self, api: tuple[int, int], body: bytes) -> Response:
        return self._raw.send(self._coordinator, api, body)


def _init(response: Response) -> tuple[int, int]:
    _, code, producer, epoch = response.unpack(">ihqh")
    _check(code, "cannot get a producer id")
    return producer, epoch


def _check(code: int, what: str) -> None:
    if code:
        raise BrokerError(what, code)
