"""Checks and constants shared by the tables of settings."""

import re
from collections.abc import Sequence

from twinlog.config.java_regex import JavaRegexError, compile_list
from twinlog.config.setting import Key
from twinlog.config.value_types import Check, Kind, at_most, no_empty

MIRROR = "org.apache.kafka.connect.mirror."
BYTE_ARRAY = "org.apache.kafka.connect.converters.ByteArrayConverter"

# Strimzi's policy, older than Apache Kafka's and equivalent to it.
SAME_CLASS = {"io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": MIRROR + "IdentityReplicationPolicy"}

# `package.module:Class`
_PYTHON_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
# What a Python class must implement
FILTER = "accepts(name)"

# The largest number of seconds that fits in Java's milliseconds; MM2 accepts more, and then fails to start.
_MAX_SECONDS = 9_223_372_036_854_775


def valid_regexes(patterns: Sequence[str]) -> str | None:
    if complaint := no_empty(patterns):
        return complaint
    try:
        compile_list(patterns)
    except JavaRegexError as error:
        if len(patterns) == 1:
            return str(error)
        # MM2 joins the list into one pattern; the message names the wrong element.
        found = ((pattern, valid_regexes([pattern])) for pattern in patterns)
        return next((f"{pattern!r}: {complaint}" for pattern, complaint in found if complaint), str(error))
    return None


def runnable_class(*known: str, python: str = "") -> Check:
    """Accepts the `known` classes, and Python classes if `python` states what they must implement (see mm2/plugins.py).

    Other names are Java classes, which cannot be run: they are rejected rather than silently replaced.
    """

    def check(name: str) -> str | None:
        if name in known or SAME_CLASS.get(name) in known or (python and _PYTHON_CLASS.fullmatch(name)):
            return None
        also = f", or a Python class (package.module:Class) with {python}" if python else ""
        return f"Java classes cannot be run; use {' or '.join(known)}{also}"

    return check


def interval(name: str) -> Key:
    return Key(name, Kind.LONG, "How often. Negative: never. 0: continuously.", at_most(_MAX_SECONDS))


def converter(of: str) -> Key:
    """The converter of a record's keys, values or headers; `of` is one of them."""
    no_effect = "records are copied as bytes, never converted"
    doc = f"Converter of {of}s; bytes stay bytes."
    return Key(f"{of}.converter", Kind.CLASS, doc, no_effect=no_effect, no_note_for=(BYTE_ARRAY,))
