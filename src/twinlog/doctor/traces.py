"""Lines of MM2's log (or of any Kafka client's): what each means, and which check tells why it is so now. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twinlog.doctor.findings import Finding

LOG: Final = "log"
_QUOTED: Final = 160  # characters of a line


@dataclass(frozen=True, slots=True)
class Phrase:
    """What stands in a log. `means` may name groups of the pattern; `checks` are those that look for a cause."""

    pattern: str
    means: str
    checks: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Trace:
    phrase: Phrase
    line: str  # the newest
    number: int  # of that line
    means: str
    times: int = 1


# The first that fits a line counts, so what names a cause stands before what names an effect.
PHRASES: Final = (
    Phrase(
        r"Plugin class loader for connector: '(?P<name>[\w.$]+)' was not found",
        "this worker does not have the class {name}",
        ("configuration",),
        "nothing is to be installed for Twinlog: MM2's three connectors are part of it",
    ),
    Phrase(
        r"Failed to find any class that implements Connector and which name matches (?P<name>[\w.$]+)",
        "this worker does not have the class {name}",
        ("configuration",),
        "nothing is to be installed for Twinlog: MM2's three connectors are part of it; check the spelling",
    ),
    Phrase(
        r"(?:annot|ould not|nable to|ailed to) create (?:the )?(?:(?:[Ll]og )?director|[Ll]og file)",
        "MM2 could not make the folder for its own log",
        ("machine",),
        "Twinlog keeps no log of its own: it writes to standard error; for MM2: export LOG_DIR=/tmp/logs",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]*heartbeats)=UNKNOWN_TOPIC_OR_PARTITION",
        "the cluster has no topic {topic}: nobody writes heartbeats there",
        ("topics",),
        "let a flow into that cluster emit heartbeats, or set heartbeats.replication.enabled = false",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]+)=UNKNOWN_TOPIC_OR_PARTITION",
        "the cluster has no topic {topic}, or its leader was not known yet",
        ("topics", "leaders", "advertised", "rights"),
        "it was passing, if it is not repeated: a topic that was just created has no leader for a moment",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]+)=(?:LEADER_NOT_AVAILABLE|NOT_LEADER_OR_FOLLOWER)",
        "a partition of {topic} had no leader",
        ("leaders", "advertised"),
        "it was passing, if it is not repeated: an election takes a moment",
    ),
    Phrase(
        r"(?:Replication factor|replication factor)[^\d]*(?P<factor>\d+) (?:larger|times|replicas)|"
        r"Unable to replicate the partition (?P<times>\d+) time",
        "a topic was to have more replicas than there are brokers",
        ("replication",),
        "lower the replication factor of what was to be created, or add brokers",
    ),
    Phrase(
        r"Failed to flush, timed out while waiting for producer to flush outstanding (?P<count>[\d,]+) messages",
        "the target did not take {count} records in time (offset.flush.timeout.ms)",
        ("replication", "advertised", "leaders", "size", "connection", "rights"),
        "Twinlog has no such limit: it names the partition and the broker's answer, and goes on by itself",
    ),
    Phrase(
        r"Failed to commit offsets",
        "positions could not be written to the target, mostly because it did not take the records before them",
        ("replication", "advertised", "leaders", "size", "connection", "rights"),
        "Twinlog finds its position by the target's own log: what was not committed is not copied twice",
    ),
    Phrase(
        r"NotEnoughReplicas(?:AfterAppend)?Exception|NOT_ENOUGH_REPLICAS",
        "fewer replicas were in sync than min.insync.replicas asks for",
        ("replication", "leaders"),
        "check the brokers that lag, or are down",
    ),
    Phrase(
        r"PKIX path building failed|unable to find valid certification path|SSLHandshakeException.*certificate",
        "the broker's certificate comes from a CA that the truststore does not have",
        ("tls",),
        "put the CA's certificate into the file of ssl.truststore.location",
    ),
    Phrase(
        r"No subject alternative (?:DNS )?names? matching|No name matching",
        "the broker's certificate is for other names than the address that was called",
        ("tls",),
        "call it by a name of its certificate, or give it one with this name",
    ),
    Phrase(
        r"Unexpected Kafka request of type \w+ during SASL handshake",
        "the listener asks for a login, and the client gave none",
        ("login",),
        "set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism and sasl.jaas.config",
    ),
    Phrase(
        r"(?:SaslAuthenticationException|Authentication failed)\b.*",
        "the cluster refused the user or the password (the API key)",
        ("login",),
        "check sasl.jaas.config: in clouds the user is often a fixed word, such as token",
    ),
    Phrase(
        r"SSL handshake failed|SslAuthenticationException",
        "client and broker did not agree on TLS",
        ("tls",),
        "check security.protocol, ssl.truststore.* and ssl.protocol",
    ),
    Phrase(
        r"UnknownHostException:? ?(?P<host>[\w.\-]*)|No resolvable bootstrap urls",
        "a name could not be resolved from this machine",
        ("name", "advertised"),
        "check bootstrap.servers, and advertised.listeners of the brokers",
    ),
    Phrase(
        r"Bootstrap broker (?P<host>[\w.\-]+:\d+) .*disconnected",
        "{host} took the connection and closed it: often plain text spoken to a TLS port",
        ("tls", "login", "connection"),
        "check security.protocol against the listener of that port",
    ),
    Phrase(
        r"Connection to node -\d+ \((?P<host>[^)]+)\) could not be established",
        "nobody answers at {host}, which is one of bootstrap.servers",
        ("connection", "name"),
        "check the address, and firewalls between here and there",
    ),
    Phrase(
        r"Connection to node (?P<node>\d+) \((?P<host>[^)]+)\) could not be established",
        "nobody answers at {host}, the address that broker {node} advertises",
        ("advertised", "connection"),
        "set advertised.listeners of that broker to an address that clients reach",
    ),
    Phrase(
        r"RecordTooLargeException|MESSAGE_TOO_LARGE",
        "a record is larger than the target, or MM2's producer, takes",
        ("size",),
        "raise max.message.bytes of the remote topic; Twinlog itself has no limit",
    ),
    Phrase(
        r"(?P<kind>Topic|Group|Cluster|TransactionalId)AuthorizationException",
        "a right on a {kind} is missing",
        ("rights",),
        "grant what the check of rights names",
    ),
)
_COMPILED: Final = tuple((re.compile(phrase.pattern), phrase) for phrase in PHRASES)


def recognised(lines: Iterable[str]) -> list[Trace]:
    """Each meaning once, with how often it was met, in the order in which they came first."""
    found: dict[str, Trace] = {}
    for number, line in enumerate(lines, 1):
        for pattern, phrase in _COMPILED:
            if match := pattern.search(line):
                named = {name: text or "?" for name, text in match.groupdict().items()}
                means = phrase.means.format_map(named)
                before = found.get(means)
                trace = Trace(phrase, line.strip(), number, means)
                found[means] = replace(trace, times=before.times + 1) if before else trace
                break
    return list(found.values())


def findings(traces: Sequence[Trace], seen: Sequence[Finding]) -> list[Finding]:
    """`seen`: what the other checks have found, just now. Where one of them tells the cause, that is said instead."""
    if not traces:
        return [Finding("note", LOG, LOG, "", "no line of it is known here: what is wrong now is said above")]
    return [_finding(each, seen) for each in traces]


def _finding(trace: Trace, seen: Sequence[Finding]) -> Finding:
    where = f"line {trace.number:,}" + (f", {trace.times:,} times" if trace.times > 1 else "")
    quoted = trace.line if len(trace.line) <= _QUOTED else f"{trace.line[:_QUOTED]}..."
    causes = [each for each in seen if each.check in trace.phrase.checks and each.status in ("error", "warning")]
    if causes:
        worst = min(causes, key=lambda each: (each.status != "error", trace.phrase.checks.index(each.check)))
        place = f"{worst.scope}, {worst.where}" if worst.where else worst.scope
        return Finding(worst.status, LOG, LOG, where, f"{trace.means} ({quoted})", f"now: {place}: {worst.found}")
    return Finding("note", LOG, LOG, where, f"{trace.means} ({quoted})", trace.phrase.advice)
