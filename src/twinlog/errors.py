"""The one tree of errors. Each is a sentence for an operator: what, which value, what to do.

* TwinlogError          anything that ends a command with one line and a non-zero exit code
    x ConfigError       the operator must change the configuration; carries every mistake found
    x JavaError         no usable Java on this machine
    x LabError          a local cluster, or the peer, did not do what it was asked
    * KafkaError        a cluster: unreachable, or it refused something
        x UnreachableError  nobody answers; time may heal it
        x RefusedError      the broker answered with an error code
        x ProtocolError     the answer makes no sense
        x LockedError       the door stays shut: a certificate, a password, a token; `heals` says whether time may help
    x RelayError        a flow, or a partition of it, cannot go on
    x SparkError        Spark did not start, or is gone
"""


class TwinlogError(Exception):
    exit_code = 1


class ConfigError(TwinlogError):
    exit_code = 2


class JavaError(TwinlogError):
    """`missing` tells a machine with no Java (one can be brought by pip) from one whose Java is too old."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


class LabError(TwinlogError):
    pass


class KafkaError(TwinlogError):
    pass


class UnreachableError(KafkaError):
    pass


class RefusedError(KafkaError):
    """`code` is Kafka's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ProtocolError(KafkaError):
    pass


class LockedError(KafkaError):
    """`heals`: whether the same attempt may succeed later without a change of configuration."""

    def __init__(self, message: str, *, heals: bool = False) -> None:
        super().__init__(message)
        self.heals = heals


class RelayError(TwinlogError):
    pass


class SparkError(TwinlogError):
    pass
