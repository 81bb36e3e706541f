import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from twinlog.metrics.text_format import head, jmx, labels, number


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ("orders", "orders"),
        ("us.orders-2_x", "us.orders-2_x"),
        ("a b\t100%", "a b\t100%"),
        ("us->eu.MirrorSourceConnector", '"us->eu.MirrorSourceConnector"'),
        (
            "us->eu|MirrorSourceConnector-0|replication-consumer",
            '"us->eu|MirrorSourceConnector-0|replication-consumer"',
        ),
        ('say "hi"', '"say \\"hi\\""'),
        ("a*b?c\\d", '"a\\*b\\?c\\\\d"'),
        ("two\nlines", '"two\\nlines"'),
        ("größe", '"größe"'),
    ],
)
def test_jmx_quoting(tag: str, shown: str) -> None:
    assert jmx(tag) == shown


@pytest.mark.parametrize("value", ["plain", 'a "quoted" one', "back\\slash", "two\nlines", "\\n", "größe", "", "}{,="])
def test_a_label_round_trips(value: str) -> None:
    text = head("m", "gauge", "back\\slash\nand line") + f"m{labels(('a', 'b'), (value, 7))} 1\n"
    (family,) = text_string_to_metric_families(text)
    assert family.documentation == "back\\slash\nand line"
    assert family.samples[0].labels == {"a": value, "b": "7"}


def test_no_labels_no_brackets() -> None:
    assert labels((), ()) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (0.1, "0.1"),
        (1e22, "1e+22"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (2**70, str(2**70)),
    ],
)
def test_numbers(value: float, shown: str) -> None:
    assert number(value) == shown
    assert float(shown) == value or math.isnan(value)
