"""Explains lines of the log of MM2, or of any Kafka client, and finds the check that shows the cause. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from twinlog.inspect.doctor.findings import Finding

LOG: Final = "log"
_QUOTED: Final = 160  # characters of a line


@dataclass(frozen=True, slots=True)
class Phrase:
    """A pattern of log lines. `means` may refer to its groups; `checks` are those that find causes."""

    pattern: str
    means: str
    checks: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class LogMatch:
    phrase: Phrase
    line: str  # the newest that matches
    number: int  # of that line
    means: str
    times: int = 1


# The first match of a line counts, so causes come before effects.
PHRASES: Final = (
    Phrase(
        r"Plugin class loader for connector: '(?P<name>[\w.$]+)' was not found",
        "class {name} is not installed on this worker",
        ("configuration",),
        "Twinlog needs no installation of it: MM2's three connectors are built in",
    ),
    Phrase(
        r"Failed to find any class that implements Connector and which name matches (?P<name>[\w.$]+)",
        "class {name} is not installed on this worker",
        ("configuration",),
        "Twinlog needs no installation of it: MM2's three connectors are built in; check the spelling",
    ),
    Phrase(
        r"(?:annot|ould not|nable to|ailed to) create (?:the )?(?:(?:[Ll]og )?director|[Ll]og file)",
        "MM2 could not create its log directory",
        ("machine",),
        "Twinlog has no log files: it logs to standard error; for MM2: export LOG_DIR=/tmp/logs",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]*heartbeats)=UNKNOWN_TOPIC_OR_PARTITION",
        "the cluster has no topic {topic}: no flow writes heartbeats to it",
        ("topics",),
        "let a flow into that cluster emit heartbeats, or set heartbeats.replication.enabled = false",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]+)=UNKNOWN_TOPIC_OR_PARTITION",
        "the cluster has no topic {topic}, or its leader is not known yet",
        ("topics", "leaders", "advertised", "rights"),
        "temporary unless repeated: a new topic has no leader for a moment",
    ),
    Phrase(
        r"\{(?P<topic>[\w.\-]+)=(?:LEADER_NOT_AVAILABLE|NOT_LEADER_OR_FOLLOWER)",
        "a partition of {topic} had no leader",
        ("leaders", "advertised"),
        "temporary unless repeated: an election takes a moment",
    ),
    Phrase(
        r"(?:Replication factor|replication factor)[^\d]*(?P<factor>\d+) (?:larger|times|replicas)|"
        r"Unable to replicate the partition (?P<times>\d+) time",
        "a topic's replication factor exceeds the number of brokers",
        ("replication",),
        "lower the replication factor, or add brokers",
    ),
    Phrase(
        r"Failed to flush, timed out while waiting for producer to flush outstanding (?P<count>[\d,]+) messages",
        "the target did not acknowledge {count} records in time (offset.flush.timeout.ms)",
        ("replication", "advertised", "leaders", "size", "connection", "rights"),
        "Twinlog has no such limit: it reports the partition and the broker's error, and retries",
    ),
    Phrase(
        r"Failed to commit offsets",
        "offsets could not be committed, mostly because the records before them were not acknowledged",
        ("replication", "advertised", "leaders", "size", "connection", "rights"),
        "Twinlog derives its position from the target's log: uncommitted records are not copied twice",
    ),
    Phrase(
        r"NotEnoughReplicas(?:AfterAppend)?Exception|NOT_ENOUGH_REPLICAS",
        "fewer replicas are in sync than min.insync.replicas requires",
        ("replication", "leaders"),
        "check for brokers that lag or are down",
    ),
    Phrase(
        r"PKIX path building failed|unable to find valid certification path|SSLHandshakeException.*certificate",
        "the broker's certificate was issued by a CA that is not in the truststore",
        ("tls",),
        "add the CA's certificate to the file in ssl.truststore.location",
    ),
    Phrase(
        r"No subject alternative (?:DNS )?names? matching|No name matching",
        "the broker's certificate does not contain the host name used to connect",
        ("tls",),
        "use a host name of the certificate, or issue a certificate with this name",
    ),
    Phrase(
        r"Unexpected Kafka request of type \w+ during SASL handshake",
        "the listener requires SASL authentication, and the client used none",
        ("login",),
        "set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism and sasl.jaas.config",
    ),
    Phrase(
        r"(?:SaslAuthenticationException|Authentication failed)\b.*",
        "the cluster rejected the user name or password (API key)",
        ("login",),
        "check sasl.jaas.config: cloud services often use a fixed user name, such as token",
    ),
    Phrase(
        r"SSL handshake failed|SslAuthenticationException",
        "the TLS handshake failed",
        ("tls",),
        "check security.protocol, ssl.truststore.* and ssl.protocol",
    ),
    Phrase(
        r"UnknownHostException:? ?(?P<host>[\w.\-]*)|No resolvable bootstrap urls",
        "a host name could not be resolved",
        ("name", "advertised"),
        "check bootstrap.servers, and advertised.listeners of the brokers",
    ),
    Phrase(
        r"Bootstrap broker (?P<host>[\w.\-]+:\d+) .*disconnected",
        "{host} accepted and closed the connection: often plaintext sent to a TLS port",
        ("tls", "login", "connection"),
        "check security.protocol against the listener of that port",
    ),
    Phrase(
        r"Connection to node -\d+ \((?P<host>[^)]+)\) could not be established",
        "no answer from {host}, one of bootstrap.servers",
        ("connection", "name"),
        "check the address and the firewalls in between",
    ),
    Phrase(
        r"Connection to node (?P<node>\d+) \((?P<host>[^)]+)\) could not be established",
        "no answer from {host}, which broker {node} advertises",
        ("advertised", "connection"),
        "set advertised.listeners of that broker to an address that clients can reach",
    ),
    Phrase(
        r"RecordTooLargeException|MESSAGE_TOO_LARGE",
        "a record is larger than the limit of the target or of MM2's producer",
        ("size",),
        "raise max.message.bytes of the remote topic; Twinlog itself has no limit",
    ),
    Phrase(
        r"(?P<kind>Topic|Group|Cluster|TransactionalId)AuthorizationException",
        "a permission on a {kind} is missing",
        ("rights",),
        "grant the permissions that the check rights lists",
    ),
)
_COMPILED: Final = tuple((re.compile(phrase.pattern), phrase) for phrase in PHRASES)


def matches(lines: Iterable[str]) -> list[LogMatch]:
    """One per meaning, with the number of lines, in order of first appearance."""
    found: dict[str, LogMatch] = {}
    for number, line in enumerate(lines, 1):
        for pattern, phrase in _COMPILED:
            if match := pattern.search(line):
                named = {name: text or "?" for name, text in match.groupdict().items()}
                means = phrase.means.format_map(named)
                before = found.get(means)
                newest = LogMatch(phrase, line.strip(), number, means)
                found[means] = replace(newest, times=before.times + 1) if before else newest
                break
    return list(found.values())


def findings(found: Sequence[LogMatch], seen: Sequence[Finding]) -> list[Finding]:
    """`seen`: the findings of the other checks. If one of them is the cause, it replaces the general advice."""
    if not found:
        return [Finding("note", LOG, LOG, "", "no known problem in the log; for current problems see above")]
    return [_finding(each, seen) for each in found]


def _finding(match: LogMatch, seen: Sequence[Finding]) -> Finding:
    where = f"line {match.number:,}" + (f", {match.times:,} times" if match.times > 1 else "")
    quoted = match.line if len(match.line) <= _QUOTED else f"{match.line[:_QUOTED]}..."
    causes = [each for each in seen if each.check in match.phrase.checks and each.status in ("error", "warning")]
    if causes:
        worst = min(causes, key=lambda each: (each.status != "error", match.phrase.checks.index(each.check)))
        place = f"{worst.scope}, {worst.where}" if worst.where else worst.scope
        return Finding(worst.status, LOG, LOG, where, f"{match.means} ({quoted})", f"now: {place}: {worst.found}")
    return Finding("note", LOG, LOG, where, f"{match.means} ({quoted})", match.phrase.advice)
