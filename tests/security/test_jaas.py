"""`sasl.jaas.config` is parsed exactly as by Kafka's own parser."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from lab.kafka_classes import KafkaJvm
from twinlog.config.flows import Client
from twinlog.config.values import DEFAULT, FrozenMap, Value
from twinlog.errors import ConfigError
from twinlog.security import jaas
from twinlog.security.jaas import LoginModule, login_module, parse

PLAIN = jaas.PLAIN


def client(text: str) -> Client:
    values = {"security.protocol": "SASL_SSL", "sasl.jaas.config": text}
    return Client("admin", FrozenMap({key: Value(key, value, DEFAULT) for key, value in values.items()}))


def test_one_module_with_its_options() -> None:
    module = login_module(client(f'{PLAIN} required username="alice" password="it\'s \\"quoted\\" \\\\ \\101";'))
    assert module.name == PLAIN
    assert module.options == {"username": "alice", "password": 'it\'s "quoted" \\ A'}


def test_a_shaded_module_is_known_by_the_end_of_its_name() -> None:
    assert LoginModule(f"shaded.{jaas.SCRAM}", {}).kind == jaas.SCRAM
    assert LoginModule(f"x{jaas.SCRAM}", {}).kind == f"x{jaas.SCRAM}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sasl.jaas.config is empty"),
        ("// nothing", "sasl.jaas.config is empty"),
        (f'{PLAIN} required username="alice" password="hunter2"', "no semicolon at the end"),
        (f'{PLAIN} required username="alice" password="hunter2;', "no semicolon at the end"),
        (f'{PLAIN} required username="alice" password=hunter2 hunter3;', "option 3 is not"),
        (f'{PLAIN} required username="alice" password=42;', "option 2 is not"),
        (f'{PLAIN} hunter2 username="alice";', "one of required, requisite, sufficient, optional"),
        (f'{PLAIN} username="hunter2";', "one of required"),
        ("= required;", "begin with its class name"),
        (f"{PLAIN} required; {PLAIN} required;", "2 login modules, expected one"),
        ("x" * (1 << 20) + " required;", "longer than"),
    ],
)
def test_errors_are_one_line_without_the_text(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        login_module(client(text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_no_jaas_at_all() -> None:
    missing = Client("admin", FrozenMap({"security.protocol": Value("security.protocol", "SASL_SSL", DEFAULT)}))
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config is missing: security\.protocol = SASL_SSL"):
        login_module(missing)


def test_options_are_not_shown() -> None:
    assert "hunter2" not in repr(parse(f'{PLAIN} required password="hunter2";'))


KNOWN = [
    "A required;", "A REQUIRED ;", "A Requisite a=b;", 'A sufficient a = "b" ;', "A optional a='b';", "A other;", "A;", "A",
    "A required", "A required a", "A required a=", "A required a=;", "A required a=b", "A required a=1;", 'A required a="1";',
    "A required a=b1;", "A required a=-;", "A required a=-b;", "A required a=b-1;", "A required a=.5;", "A required a=b.c;",
    "A required 1=b;", "A required =b;", "A required ==b;", "A required a==b;", "A required a=b=c;", "A required a:b;",
    'A required a="b\nc";', 'A required a="b\\nc";', 'A required a="\\101\\1012\\400\\8\\x";', 'A required a="\\\\";',
    'A required a="\\"";', "A required a='\"';", 'A required a="b', 'A required a="b\\', "A required // c\n a=b;",
    "A required / c\n a=b;", "A required /\n c\n a=b;", "A required /* c */ a=b;", "A required /*/ a=b;", "A required /* c",
    "A required /* c\n*/ a=b;", "A required /* c*\n/ a=b;", "A required /* c\r\n*/ a=b;", "A required /**/ a=b;", "/x\nA required;",
    "A required a=b; B optional;", ";", '"A b" required;', "'' required;", 'A "required";', "A required a=$b_c-d;",
    "A required a=ü;", "A required a=日本;", "A required a=\u0085;", "A required a=\u00a0b;", 'A required a="\u0000";', "A required a=b,c;",
    "A required a=b\u0001;", 'A required "a b"="c d";', "A required a.b=c;", "A required a.1=c;", "A required .a=c;", "A required a=b;;",
    "A required a=b a=c;", 'A required a="";', 'A required ""=c;', "A\trequired\ta=b\t;", "A required #a=b;", "A required a=😀;",
]  # fmt: skip


class KafkaParser:
    """Every call to the JVM costs a millisecond, so the verdict crosses as one JSON document."""

    def __init__(self, kafka: KafkaJvm, invoke: Any) -> None:
        self._kafka, self._invoke = kafka, invoke

    def modules(self, text: str) -> list[tuple[str, dict[str, str]]] | None:
        """What Kafka reads, or None where it refuses."""
        try:
            config = self._invoke("org.apache.kafka.common.security.JaasConfig", "new", "KafkaClient", text)
            entries = config.getAppConfigurationEntry("KafkaClient")
        except Py4JJavaError:
            return None
        found = []
        for entry in entries:
            options = self._kafka.jvm.java.util.HashMap(entry.getOptions())
            options.remove(None)
            found.append((str(entry.getLoginModuleName()), self._kafka.strings(options)))
        return found


@pytest.fixture(scope="module")
def parser(kafka_jvm: KafkaJvm, invoke: Any) -> KafkaParser:
    return KafkaParser(kafka_jvm, invoke)


def ours(text: str) -> list[tuple[str, dict[str, str]]] | None:
    try:
        return [(module.name, module.options) for module in parse(text)]
    except ConfigError:
        return None


@pytest.mark.java
@pytest.mark.parametrize("text", KNOWN)
def test_texts_are_read_as_kafka_reads_them(parser: KafkaParser, text: str) -> None:
    assert ours(text) == parser.modules(text)


pieces = st.sampled_from([
    "A", "b", " ", "\n", "\r", "=", ";", '"', "'", "\\", "/", "*", "//", "/*", "*/", "1", ".", "-", "_", "$", "\\n", "\\07", "\\377",
    "required", "optional", "a=b", 'a="b c"', "ä", "\u0085", "日", ",", "#", "\x00",
])  # fmt: skip


@pytest.mark.java
@given(st.lists(pieces, max_size=12), st.booleans())
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_generated_texts_are_read_as_kafka_reads_them(parser: KafkaParser, parts: list[str], begun: bool) -> None:
    text = ("A required " if begun else "") + "".join(parts) + (";" if begun else "")
    assert ours(text) == parser.modules(text)
