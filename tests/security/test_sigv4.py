"""Signatures against AWS's published examples."""

import hashlib
from datetime import UTC, datetime

from twinlog.security import sigv4
from twinlog.security.sigv4 import Request, Scope

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOON = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()


def test_the_signing_key_of_the_documentation() -> None:
    key = sigv4.signing_key(SECRET, Scope(NOON, "us-east-1", "iam"))
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


def test_list_users_of_the_documentation() -> None:
    headers = {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "host": "iam.amazonaws.com",
        "x-amz-date": "20150830T123600Z",
    }
    request = Request("GET", "/", {"Version": "2010-05-08", "Action": "ListUsers"}, headers)
    assert hashlib.sha256(request.canonical().encode()).hexdigest() == (
        "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
    )
    assert sigv4.authorization("AKIDEXAMPLE", SECRET, Scope(NOON, "us-east-1", "iam"), request) == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_get_vanilla_of_the_test_suite() -> None:
    headers = {"x-amz-date": "20150830T123600Z", "host": "example.amazonaws.com"}
    scope = Scope(NOON, "us-east-1", "service")
    assert sigv4.signature(SECRET, scope, Request("GET", "/", {}, headers)) == (
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    )


def test_the_presigned_url_of_the_documentation() -> None:
    scope = Scope(datetime(2013, 5, 24, tzinfo=UTC).timestamp(), "us-east-1", "s3")
    query = {
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"AKIAIOSFODNN7EXAMPLE/{scope.text}",
        "X-Amz-Date": scope.timestamp,
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
    }
    request = Request("GET", "/test.txt", query, {"host": "examplebucket.s3.amazonaws.com"}, "UNSIGNED-PAYLOAD")
    assert sigv4.signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", scope, request) == (
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )
