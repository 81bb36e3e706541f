"""SCRAM by the RFCs' examples, against Kafka's own server class, and against brokers that lie."""

import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError

from twinlog.errors import LockedError
from twinlog.lab.jvm import KafkaJvm
from twinlog.security.scram import MOST_ITERATIONS, Scram

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def begun(mechanism: str = "SCRAM-SHA-256") -> Scram:
    exchange = Scram(mechanism, "user", "pencil", nonce=NONCE)
    exchange.first()
    return exchange


def test_the_example_of_rfc_7677() -> None:
    exchange = Scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.next(FIRST) == PROOF
    assert exchange.next(FINAL) is None


def test_names_are_escaped_and_tokens_are_marked() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "p", nonce="n").first() == b"n,,n=a=3Db=2Cc,r=n"
    assert Scram("SCRAM-SHA-512", "id", "mac", tokenauth=True, nonce="n").first() == b"n,,n=id,r=n,tokenauth=true"


def test_every_login_has_a_nonce_of_its_own() -> None:
    assert Scram("SCRAM-SHA-256", "u", "p").first() != Scram("SCRAM-SHA-256", "u", "p").first()


@pytest.mark.parametrize(
    ("challenge", "said", "heals"),
    [
        (FIRST.replace(b"r=rOpr", b"r=rOpq"), "nonce does not extend ours", False),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce does not extend ours", False),
        (FIRST.replace(b"i=4096", b"i=4095"), "asks for 4095 iterations: expected 4096 to 1000000", False),
        (FIRST.replace(b"i=4096", b"i=999999999"), "asks for 999999999 iterations", False),
        (FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "answer is not SCRAM's", True),
        (FIRST.replace(b"i=4096", b"i=-1"), "answer is not SCRAM's", True),
        (FIRST.replace(b"gQ==", b"gQ="), "answer is not SCRAM's", True),
        (b"m=must-know," + FIRST, "answer is not SCRAM's", True),
        (b"", "answer is not SCRAM's", True),
        (b"\xff\x00", "answer is not SCRAM's", True),
        (b"r=" + b"x" * (1 << 17), "answer is too long", True),
        (b"e=unknown-user", "user 'user' is refused (unknown-user): check username and password", False),
    ],
)
def test_a_first_answer_that_is_wrong(challenge: bytes, said: str, heals: bool) -> None:
    with pytest.raises(LockedError) as caught:
        begun().next(challenge)
    assert said in str(caught.value)
    assert caught.value.heals is heals


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"v=" + base64.b64encode(b"x" * 32), "does not know the password of user 'user'"),
        (b"v=", "does not know the password"),
        (FINAL[:-4], "does not know the password"),
        (b"v=***", "answer is not SCRAM's"),
        (b"", "answer is not SCRAM's"),
        (b"e=invalid-proof\nwith\x07noise", "is refused (invalid-proof with noise)"),
    ],
)
def test_a_broker_that_cannot_prove_itself(challenge: bytes, said: str) -> None:
    exchange = begun()
    exchange.next(FIRST)
    with pytest.raises(LockedError) as caught:
        exchange.next(challenge)
    assert said in str(caught.value)
    assert "pencil" not in str(caught.value)


def test_extensions_of_the_broker_are_passed_over() -> None:
    exchange = begun()
    answer = exchange.next(FIRST + b",x=y")
    assert answer is not None
    assert answer != PROOF  # they are part of what is signed


def test_the_largest_number_of_iterations_is_done_in_seconds() -> None:
    assert begun("SCRAM-SHA-512").next(FIRST.replace(b"i=4096", b"i=%d" % MOST_ITERATIONS))


class Server:
    """Kafka's own ScramSaslServer with one user, in the JVM: what a broker runs."""

    def __init__(self, kafka: KafkaJvm, mechanism: str) -> None:
        self._kafka, self.mechanism = kafka, mechanism
        package = kafka.jvm.org.apache.kafka.common.security.scram.internals
        self._kind = package.ScramMechanism.forMechanismName(mechanism)
        self._formatter = package.ScramFormatter(self._kind)
        self._package = package
        cache = kafka.jvm.org.apache.kafka.common.security.authenticator.CredentialCache()
        self._credentials = cache.createCache(mechanism, kafka._class(SCRAM + "ScramCredential"))
        tokens = kafka.jvm.org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache
        self._tokens = tokens(kafka.jvm.java.util.List.of(mechanism))

    def knows(self, user: str, password: str) -> None:
        self._credentials.put(user, self._formatter.generateCredential(password, 4096))

    def knows_token(self, name: str, secret: str) -> None:
        """A delegation token: its HMAC, in base64, is the password."""
        delegation = self._kafka.jvm.org.apache.kafka.common.security.token.delegation
        owner = self._kafka.jvm.org.apache.kafka.common.security.auth.KafkaPrincipal("User", "alice")
        told = delegation.TokenInformation(name, owner, owner, self._kafka.jvm.java.util.List.of(), 0, 1 << 50, 1 << 50)
        credential = self._formatter.generateCredential(secret, 4096)
        by_mechanism = self._kafka.jvm.java.util.Map.of(self.mechanism, credential)
        self._tokens.updateCache(delegation.DelegationToken(told, base64.b64decode(secret)), by_mechanism)

    def login(self, exchange: Scram) -> bool:
        handler = self._package.ScramServerCallbackHandler(self._credentials, self._tokens)
        handler.configure(self._kafka.jvm.java.util.HashMap(), self.mechanism, self._kafka.jvm.java.util.List.of())
        server = self._package.ScramSaslServer(self._kind, self._kafka.jvm.java.util.HashMap(), handler)
        token: bytes | None = exchange.first()
        try:
            while token is not None:
                token = exchange.next(bytes(server.evaluateResponse(token)))
        except Py4JJavaError:
            return False
        return bool(server.isComplete())


SCRAM = "org.apache.kafka.common.security.scram."


@pytest.fixture(scope="module", params=["SCRAM-SHA-256", "SCRAM-SHA-512"])
def server(kafka_jvm: KafkaJvm, request: pytest.FixtureRequest) -> Server:
    return Server(kafka_jvm, request.param)


@pytest.mark.java
@given(
    user=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=12),
    password=st.text(st.characters(codec="utf-8"), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kafkas_server_lets_any_name_and_password_in(server: Server, user: str, password: str) -> None:
    server.knows(user, password)
    assert server.login(Scram(server.mechanism, user, password))


@pytest.mark.java
def test_kafkas_server_refuses_what_it_must(server: Server) -> None:
    server.knows("user", "pencil")
    assert server.login(Scram(server.mechanism, "user", "pencil"))
    assert not server.login(Scram(server.mechanism, "user", "pencils"))
    assert not server.login(Scram(server.mechanism, "nobody", "pencil"))
    # Kafka knows only ASCII names here: it is the broker's to say so, since other brokers may be kinder.
    server.knows("jürgen", "pencil")
    assert not server.login(Scram(server.mechanism, "jürgen", "pencil"))


@pytest.mark.java
def test_a_delegation_token_is_taken_where_it_is_said_to_be_one(server: Server) -> None:
    secret = base64.b64encode(b"an HMAC of the broker's").decode()
    server.knows_token("token-id", secret)
    assert server.login(Scram(server.mechanism, "token-id", secret, tokenauth=True))
    assert not server.login(Scram(server.mechanism, "token-id", secret))
