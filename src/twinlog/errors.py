"""The exception hierarchy. Each message is one line for an operator: what failed, the value, the remedy.

* TwinlogError          ends a command with a one-line message and a non-zero exit code
    x ConfigError       invalid configuration; the message lists every mistake found
    x JavaError         no usable Java on this machine
    * KafkaError        a cluster is unreachable or refused a request
        x UnreachableError  no response; retriable
        x UnsettledError    the log changed while it was read; retriable
        x RefusedError      the broker responded with an error code
        x ProtocolError     malformed response
        x AuthenticationError  TLS or SASL failed
    * ReplicationError  a flow, or one of its partitions, cannot continue
        x UnauthorizedError  a permission has been missing for too long
        x SupersededError   another instance has taken over the flow
        x JvmExitedError    Spark's JVM no longer answers
    x SparkError        Spark did not start, or has stopped
"""


class TwinlogError(Exception):
    """The message is "problem; advice". `advice`, what to do, may be missing."""

    exit_code = 1

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem
        self.advice = advice


class ConfigError(TwinlogError):
    exit_code = 2


class JavaError(TwinlogError):
    """`missing`: there is no Java at all (pip can install one), rather than one that is too old."""

    def __init__(self, problem: str, advice: str = "", *, missing: bool = False) -> None:
        super().__init__(problem, advice)
        self.missing = missing


class KafkaError(TwinlogError):
    """`address`: of the broker, shown before the problem. `cause`: the problem without it."""

    def __init__(self, problem: str, advice: str = "", *, address: str = "") -> None:
        super().__init__(f"{address}: {problem}" if address else problem, advice)
        self.cause = problem


class UnreachableError(KafkaError):
    pass


class UnsettledError(KafkaError):
    pass


class RefusedError(KafkaError):
    """`code` is the Kafka error code."""

    def __init__(self, problem: str, code: int) -> None:
        super().__init__(problem)
        self.code = code


class ProtocolError(KafkaError):
    pass


class AuthenticationError(KafkaError):
    """`retriable`: the same attempt may succeed later without a configuration change."""

    def __init__(self, problem: str, advice: str = "", *, address: str = "", retriable: bool = False) -> None:
        super().__init__(problem, advice, address=address)
        self.retriable = retriable


class ReplicationError(TwinlogError):
    pass


class UnauthorizedError(ReplicationError):
    pass


class SupersededError(ReplicationError):
    pass


class JvmExitedError(ReplicationError):
    pass


class SparkError(TwinlogError):
    pass
