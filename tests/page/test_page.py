"""The page in real Chromium, on flows that change."""

import re
import sys
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from tests.page.conftest import PHONE, Look, focused, shoot
from tests.page.scenes import Flow, Stage

Staged = Callable[..., Stage]

pytestmark = pytest.mark.tools

HOSTILE = "<img src=x onerror=alert(1)>"
LONG = "a-topic-with-a-name-as-long-as-kafka-allows." + "x" * 205
ARABIC, ROCKET = "مرحبا-بالعالم", "🚀-launch"
REFUSED = "us: broker 3 (kafka-3.us.example:9092) does not answer: connection refused"


def orders(minutes: float = 0, lag: int = 0) -> Flow:
    flow = Flow("us", "eu", {"orders": 6, "payments": 3, "clicks": 12}, minutes=minutes, lag=lag)
    flow.move(10)
    flow.report()
    return flow


def troubled() -> Flow:
    """Partitions of orders lost their broker two minutes ago; payments-1 is stopped; clicks has lost records."""
    flow = Flow("us", "eu", {"orders": 6, "payments": 3, "clicks": 12, HOSTILE: 1, LONG: 1, ARABIC: 1, ROCKET: 1}, minutes=40, lag=5000)  # fmt: skip
    flow.report(at=time.time() - 130)
    for name in ("orders-0", "orders-1", "orders-2"):
        flow.partitions[name] |= {
            "state": "recovering",
            "error": REFUSED,
            "end": flow.partitions[name]["position"] + 40_000,
        }
    flow.partitions["payments-1"] |= {
        "state": "stopped",
        "error": "eu refuses records of 2 MB: raise max.message.bytes",
    }
    flow.report(at=time.time() - 120)
    flow.partitions["clicks-3"]["lost"] = 500
    flow.report(
        events=[
            flow.event("lost", "500 offsets of clicks-3 were gone from us before they were copied", "clicks-3", 500, first=100, last=599),
            flow.event("retry", f"task 1 of epoch 4 failed: {HOSTILE}"),
        ]
    )  # fmt: skip
    flow.groups(["billing", "<script>alert(1)</script>"])
    return flow


def rows(page: Page, label: str = "Topics") -> list[str]:
    return page.get_by_role("grid", name=label, exact=True).locator("tbody tr[role=row]").all_inner_texts()


def first_cells(page: Page, column: int = 1) -> list[str]:
    return (
        page.get_by_role("grid", name="Topics")
        .locator(f"tbody tr[role=row] td:nth-child({column + 1})")
        .all_inner_texts()
    )


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than the window."""
    found: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return found


def test_the_map_shows_the_state_of_flows(stage: Staged, look: Look) -> None:
    there, back = orders(minutes=20), Flow("eu", "us", {"invoices": 2})
    back.report()
    page = look(stage(there, back))
    expect(page.get_by_role("heading", level=1)).to_have_text("Both flows are healthy")
    clusters = page.locator(".map .node text").all_text_contents()
    assert sorted(clusters) == ["eu", "us"]
    link = page.get_by_role("link", name="us to eu, healthy")
    expect(link).to_contain_text("caught up")
    shoot(page, "overview-light")
    for name in list(there.partitions)[:6]:
        there.partitions[name]["end"] += 500
    there.report()
    expect(link).to_contain_text("3,000 behind")
    there.move(0)
    there.report()
    there.supervisor_report("paused")
    expect(link).to_contain_text("paused")
    expect(page.locator(".edge.unknown .mark")).to_have_class("mark unknown")  # neither broken nor healthy
    expect(page.locator(".verdict")).to_contain_text("us->eu is paused")
    back.report()  # without reports for half a minute it would count as broken
    there.supervisor_report("retrying", "eu: no broker answers")
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 flow of 2 is broken")
    expect(page.locator("#news")).to_contain_text("us->eu is broken")
    expect(page.locator(".edge.broken .mark")).to_have_class("mark broken")
    expect(page.get_by_role("article").first).to_contain_text("eu: no broker answers")
    page.get_by_role("link", name="us to eu, broken").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("us->eu")
    expect(page.locator("main")).to_contain_text("eu: no broker answers")


def test_lag_chart(stage: Staged, look: Look) -> None:
    flow = orders(minutes=45, lag=20_000)
    page = look(stage(flow))
    lag = page.get_by_role("img", name="Lag, records.")
    assert "us->eu: now" in (lag.get_attribute("aria-label") or "")
    # Pixels of the line's colour over the width of the chart.
    drawn = """canvas => {
        const { width, height } = canvas, data = canvas.getContext('2d').getImageData(0, 0, width, height).data, columns = new Set();
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 2] > 140 && data[at] < 90 && data[at + 3] > 120) columns.add((at / 4) % width);
        return columns.size / width; }"""
    share = page.locator("figure", has_text="Lag, records").locator("canvas").evaluate(drawn)
    assert share > 0.5
    points = page.evaluate("twinlog.store.history.flows.get('us->eu').length")
    flow.report(at=time.time() + 6)
    page.wait_for_timeout(900)
    assert page.evaluate("twinlog.store.history.flows.get('us->eu').length") == points + 1
    expect(page.locator(".legend")).to_contain_text("us->eu")
    toggle = page.locator(".legend button")
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "false")


def test_search_sort_and_attention(stage: Staged, look: Look) -> None:
    flow = troubled()
    page = look(stage(flow), "#/topics")
    # The worst first, then by lag.
    assert first_cells(page)[:3] == ["orders", "payments", "clicks"]
    shoot(page, "topics-broken")
    page.get_by_role("searchbox").fill("PAY")
    expect(page.get_by_text("1 of 7 topics")).to_be_visible()
    assert first_cells(page) == ["payments"]
    page.get_by_role("searchbox").fill("nothing like that")
    expect(page.get_by_text("No replicated topic matches. Plan lists excluded topics and the reasons.")).to_be_visible()
    page.get_by_role("searchbox").press("Escape")
    page.get_by_label("Needs attention").check()
    expect(page.get_by_text("3 of 7 topics")).to_be_visible()
    assert sorted(first_cells(page)) == ["clicks", "orders", "payments"]
    assert "attention=1" in page.url
    page.get_by_label("Needs attention").uncheck()
    page.get_by_role("button", name="Topic", exact=True).click()
    expect(page.get_by_role("columnheader", name="Topic")).to_have_attribute("aria-sort", "ascending")
    ascending = first_cells(page)
    assert ascending == sorted(ascending)
    page.get_by_role("button", name="Topic", exact=True).click()
    expect(page.get_by_role("columnheader", name="Topic")).to_have_attribute("aria-sort", "descending")
    assert first_cells(page) == ascending[::-1]


def test_keyboard(stage: Staged, look: Look) -> None:
    page = look(stage(orders()), "#/topics")
    page.get_by_role("button", name="Topic", exact=True).click()
    page.keyboard.press("/")
    assert focused(page) == "INPUT search"
    page.keyboard.type("o")
    page.keyboard.press("ArrowDown")
    grid = page.get_by_role("grid", name="Topics")
    expect(grid).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    active = page.locator("tr[aria-selected=true]")
    expect(active).to_contain_text("orders")
    expect(grid).to_have_attribute("aria-activedescendant", active.get_attribute("id") or "")
    page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog", name="orders")
    expect(sheet.locator("tr[role=row]")).to_have_count(6)
    page.keyboard.press("ArrowDown")
    expect(sheet.locator("tr[aria-selected=true]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    expect(grid).to_be_focused()
    expect(page).to_have_url(re.compile(r"#/topics\?q=o$"))


def test_a_topic_shows_why_it_lags(stage: Staged, look: Look) -> None:
    flow = troubled()
    page = look(stage(flow), "#/topics")
    page.get_by_role("gridcell", name="orders").click()
    sheet = page.get_by_role("dialog")
    why = sheet.locator(".why")
    expect(why).to_contain_text(f"Partitions 0, 1, 2: {REFUSED}")
    expect(why).to_contain_text("120,000 records wait")
    partitions = rows(page, "Partitions")
    assert len(partitions) == 6
    cells = partitions[0].split("\t")
    assert cells[1:3] == ["recovering", "40,000"]
    assert "fast" in cells
    assert cells[-1] == REFUSED
    expect(sheet).to_contain_text("billing")
    shoot(page, "topic-why")
    for name in ("orders-0", "orders-1", "orders-2"):
        flow.partitions[name] |= {"state": "running", "error": ""}
    flow.move(0, left=0)
    flow.report()
    expect(why).to_have_text("No lag: all partitions have caught up.")
    flow.partitions = {name: fields for name, fields in flow.partitions.items() if fields["topic"] != "orders"}
    flow.epoch = 2
    flow.report(at=time.time())
    flow.report(at=time.time() + 6)
    expect(sheet).to_contain_text("topic orders is not replicated")
    page.keyboard.press("Escape")
    expect(page.get_by_text("6 topics", exact=True)).to_be_visible()


def test_an_open_transaction_is_shown(stage: Staged, look: Look) -> None:
    flow = Flow("us", "eu", {"payments": 3, "clicks": 2})
    flow.report(at=time.time() - 100)
    flow.partitions["payments-1"] |= {"end": 2212, "stable": 1000}
    flow.partitions["clicks-0"]["end"] += 5000
    flow.report(at=time.time() - 90)
    flow.move(50, names=["payments-0", "payments-2"])
    flow.partitions["clicks-0"] |= {"state": "stopped", "error": "eu refuses it", "lane": "rebuild"}
    flow.report()
    there = stage(flow)
    page = look(there, "#/topics")
    words = "blocked by an open transaction at offset 1000"
    assert first_cells(page) == ["clicks", "payments"]
    assert rows(page)[1].split("\t")[-1] == f"partition 1 {words}"
    shoot(page, "topics-transaction")
    page.get_by_role("gridcell", name="payments").first.click()
    why = page.get_by_role("dialog").locator(".why li")
    expect(why).to_have_count(1)
    expect(why).to_contain_text("Partition 1 is blocked at offset 1000 by an open transaction on us: 1,212 records")
    assert rows(page, "Partitions")[0].split("\t")[-1] == words
    shoot(page, "topic-transaction")
    page.goto(f"{there.url}/#/topic/us-%3Eeu/clicks")
    expect(why).to_have_text(["Partition 0 is stopped: eu refuses it"])
    page.goto(f"{there.url}/#/")
    expect(page.locator(".worst")).to_contain_text(words)
    phone = look(there, "#/topics", size=PHONE)
    expect(phone.get_by_role("gridcell", name=f"payments partition 1 {words}")).to_be_visible()
    expect(phone.get_by_role("gridcell", name="clicks eu refuses it")).to_be_visible()
    shoot(phone, "phone-transaction")


def test_events_groups_and_lost_ranges(stage: Staged, look: Look) -> None:
    flow = troubled()
    page = look(stage(flow), "#/events")
    expect(page.get_by_role("grid", name="Events")).to_contain_text("500 offsets of clicks-3 were gone")
    flow.report(events=[flow.event("new topic", "shipments is copied now: 3 partitions")])
    expect(page.get_by_role("grid", name="Events")).to_contain_text("shipments is copied now")
    assert len(rows(page, "Events")) == 3
    lost = next(row for row in rows(page, "Events") if "were gone" in row).split("\t")
    assert (lost[1], lost[2], lost[-1]) == ("clicks-3", "lost", "500")
    assert not any(row.split("\t")[-1] for row in rows(page, "Events") if "were gone" not in row)
    page.get_by_label("Kind").select_option("new topic")
    expect(page.locator("output")).to_have_text("1 event")
    page.get_by_role("link", name="Lost ranges").click()
    expect(page.get_by_role("grid", name="Lost ranges")).to_contain_text("clicks")
    assert rows(page, "Lost ranges")[0].split("\t")[1:6] == ["clicks", "3", "100", "599", "500"]
    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("grid", name="Consumer groups")).to_contain_text("billing")
    billing = next(row for row in rows(page, "Consumer groups") if row.startswith("billing")).split("\t")
    assert [cell.strip() for cell in billing[:4]] == ["billing", "us.orders", "0", "us->eu"]
    assert billing[4:9] == [
        "900",
        "100",
        "890",
        "880",
        "110",
    ]  # source offset and lag, translated, target offset and lag
    shoot(page, "groups")


def test_untrusted_names_are_text(stage: Staged, look: Look) -> None:
    page = look(stage(troubled()), "#/topics")
    asked: list[str] = []

    def alerted(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", alerted)
    assert HOSTILE in first_cells(page)
    assert {LONG, ARABIC, ROCKET} <= set(first_cells(page))
    for place in ("#/", "#/events", "#/groups", "#/flow/us-%3Eeu", "#/topics"):
        page.goto(page.url.partition("#")[0] + place)
        page.wait_for_timeout(150)
        assert page.locator("main img, main script").count() == 0
        assert overflow(page) <= 0
    page.get_by_role("gridcell", name=LONG).click()
    sheet = page.get_by_role("dialog")
    expect(sheet.get_by_role("heading", level=2)).to_have_text(LONG)
    assert sheet.evaluate("element => element.scrollWidth - element.clientWidth") <= 0
    shoot(page, "long-name")
    assert not asked


def test_light_and_dark(stage: Staged, look: Look) -> None:
    page = look(stage(troubled()), colours="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(15, 20, 26)"
    shoot(page, "overview-dark")
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(ground) == "rgb(244, 246, 248)"
    page.reload()
    page.wait_for_selector("body[data-updates]")
    assert page.evaluate(ground) == "rgb(244, 246, 248)"
    shoot(page, "overview-broken")


def test_a_phone(stage: Staged, look: Look) -> None:
    page = look(stage(troubled(), Flow("eu", "us", {"invoices": 1})), size=PHONE)
    for name, place in {"overview": "#/", "topics": "#/topics", "topic": "#/topic/us-%3Eeu/orders", "flow": "#/flow/us-%3Eeu",
                        "events": "#/events", "lost": "#/lost", "groups": "#/groups", "plan": "#/plan", "connectors": "#/connectors"}.items():  # fmt: skip
        page.goto(page.url.partition("#")[0] + place)
        page.wait_for_timeout(400)
        assert overflow(page) <= 0, place
        wide = page.locator(".grid").evaluate_all(
            "all => all.filter(one => one.clientWidth && one.scrollWidth > one.clientWidth).length"
        )
        assert wide == 0, place
        shoot(page, f"phone-{name}")
    page.goto(page.url.partition("#")[0] + "#/topics")
    page.get_by_role("gridcell", name="payments").click()
    expect(page.get_by_role("dialog", name="payments")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_be_hidden()


# Of each table, as wide as its columns are shown: where it is, and the columns that name things.
TABLES = {
    "Topics": ("#/topics", ["Topic"]),
    "Events": ("#/events", ["What happened"]),
    "Consumer groups": ("#/groups", ["Group", "Topic on the target"]),
    "Lost ranges": ("#/lost", ["Topic"]),
    "Partitions": ("#/topic/us-%3Eeu/many", []),
}


@pytest.mark.parametrize("width", [390, 768, 1180, 1400])
def test_columns_keep_their_width_in_a_long_list(stage: Staged, look: Look, width: int) -> None:
    """Columns that are hidden at this width take no room, wherever the list is scrolled to."""
    flow = Flow("us", "eu", {"many": 300, **{f"orders-of-a-shop-{number:03}": 1 for number in range(300)}})
    flow.report(
        events=[
            flow.event("lost", f"500 offsets of many-{at} were gone", f"many-{at}", 500, first=100, last=599)
            for at in range(200)
        ]
    )
    flow.groups([f"consumers-of-shop-{number:03}" for number in range(150)])
    page = look(stage(flow), size={"width": width, "height": 800})
    for label, (place, names) in TABLES.items():
        page.goto(page.url.partition("#")[0] + place)
        table = page.get_by_role("grid", name=label, exact=True)
        expect(table.locator("tbody tr[role=row]").nth(5)).to_be_visible()
        page.wait_for_timeout(300)
        unscrolled = widths(table)
        for share in (0, 0.5, 1):
            table.evaluate(
                "(table, share) => { const box = table.parentElement; box.scrollTop = share * box.scrollHeight; }",
                share,
            )
            page.wait_for_timeout(150)
            assert widths(table) == unscrolled, (label, share)
            assert table.evaluate("table => table.parentElement.scrollWidth <= table.parentElement.clientWidth"), label
            gap = table.evaluate(
                "table => table.clientWidth - [...table.tHead.rows[0].cells].reduce((sum, one) => sum + one.offsetWidth, 0)"
            )
            assert abs(gap) <= 2, (label, share, "the visible columns fill the table")
        for name in names:
            assert unscrolled.get(name, 100) >= 100, (label, unscrolled)
        shoot(page, f"scrolled-{width}-{label.lower().replace(' ', '-')}")


def widths(table: Locator) -> dict[str, int]:
    """Widths of the visible columns, by heading."""
    found: dict[str, int] = table.evaluate(
        "table => Object.fromEntries([...table.tHead.rows[0].cells].filter(one => one.offsetWidth)"
        ".map(one => [one.textContent || one.title, Math.round(one.getBoundingClientRect().width)]))"
    )
    return found


def test_ten_thousand_rows(stage: Staged, look: Look, record_property: Callable[[str, object], None]) -> None:
    flow = Flow("us", "eu", {f"topic-{number:05}": 1 for number in range(10_000)})
    flow.report()
    there = stage(flow)
    page = look(there, "#/topics")
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
    expect(page.get_by_text("10,000 topics")).to_be_visible()
    grid = page.get_by_role("grid", name="Topics")
    expect(grid).to_have_attribute("aria-rowcount", "10001")
    count = "document.querySelectorAll('*').length"
    assert page.evaluate(count) < 1200
    grid.focus()
    page.keyboard.press("End")
    page.keyboard.press("PageUp")
    page.keyboard.press("End")
    expect(page.locator("tr[aria-selected=true]")).to_be_in_viewport()
    assert page.evaluate(count) < 1200
    spent = []
    for _ in range(6):
        some = list(flow.partitions)[:1000]
        flow.report(flow.move(5, names=some, left=3))
        before = page.evaluate("twinlog.worstUpdateMs = 0, twinlog.updates")
        while page.evaluate("twinlog.updates") < before + 2:
            page.wait_for_timeout(50)
        spent.append(round(page.evaluate("twinlog.worstUpdateMs"), 1))
    record_property("milliseconds per update at 10,000 topics", spent)
    sys.stdout.write(f"at 10,000 topics: {spent} ms per update, answers of at most {max(sizes)} bytes\n")
    assert max(sizes) < 100_000  # what changed, not all of it
    page.get_by_role("searchbox").fill("topic-09876")
    expect(page.get_by_text("1 of 10,000 topics")).to_be_visible()
    shoot(page, "ten-thousand")
    # A removed and a new topic, without reloading the page.
    flow.partitions.pop("topic-09876-0")
    flow.add("shipments", 2)
    flow.epoch = 2
    flow.report()
    flow.report(["shipments-0"], at=time.time() + 6)
    expect(page.get_by_text("0 of 10,000 topics")).to_be_visible()
    page.get_by_role("searchbox").fill("ship")
    expect(page.get_by_text("1 of 10,000 topics")).to_be_visible()


def test_connection_loss(stage: Staged, look: Look) -> None:
    there = stage(orders())
    page = look(there)
    expect(page.locator("#link-text")).to_have_text("Live")
    there.close()
    expect(page.get_by_role("alert")).to_contain_text("No response from Twinlog since")
    expect(page.locator("#link-text")).to_have_text("Offline")
    expect(page.get_by_role("heading", level=1)).to_have_text("us->eu is healthy")  # the last state remains
    assert float(page.evaluate("getComputedStyle(document.querySelector('main')).opacity")) < 1
    shoot(page, "server-gone")
    other = Flow("us", "eu", {"returns": 1})
    other.report()
    there.show(other)
    there.open()
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator("#link-text")).to_have_text("Live")
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("link", name="Topics").click()
    expect(page.locator("output")).to_have_text("1 topic")
    assert first_cells(page) == ["returns"]


def test_empty_views(stage: Staged, look: Look) -> None:
    there = stage()
    page = look(there)
    expect(page.locator("main")).to_contain_text("No flows yet.")
    shoot(page, "empty")
    for place, words in {"topics": "No topics yet.", "groups": "No consumer groups yet.", "events": "No events since", "lost": "No lost ranges"}.items():  # fmt: skip
        page.goto(f"{there.url}/#/{place}")
        expect(page.locator("main")).to_contain_text(words)
    there.show(orders())
    page.goto(f"{there.url}/#/")
    expect(page.locator("main")).to_contain_text("No topic needs attention.")
    page.goto(f"{there.url}/#/flow/nobody")
    expect(page.locator("main")).to_contain_text("Flow not found.")


def test_many_flows(stage: Staged, look: Look) -> None:
    pairs = [("us", "eu"), ("eu", "us"), ("us", "ap"), ("ap", "us"), ("eu", "ap"), ("ap", "eu"), ("us", "sa"), ("sa", "us"),
             ("edge-frankfurt-1", "eu"), ("edge-paris-2", "eu"), ("us", "archive"), ("eu", "archive")]  # fmt: skip
    page = look(stage(*(Flow(source, target, {"orders": 1}, minutes=5) for source, target in pairs)))
    expect(page.locator(".map .edge")).to_have_count(12)
    expect(page.locator(".map .node")).to_have_count(7)
    # No label overlaps a cluster or another label.
    boxes = page.locator(".map .edge rect, .map .node rect").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(b => [b.x, b.y, b.right, b.bottom])"
    )
    clashes = [
        (one, other)
        for at, one in enumerate(boxes)
        for other in boxes[at + 1 :]
        if one[0] < other[2] - 1 and other[0] < one[2] - 1 and one[1] < other[3] - 1 and other[1] < one[3] - 1
    ]
    assert not clashes
    shoot(page, "many-flows")


def test_the_plan_is_made_on_request(stage: Staged, look: Look) -> None:
    plan = (
        '{"flows": [{"flow": "us->eu", "source": "us", "target": "eu", "replicates": true, "records": 1200, "bytes_about": 50000,'
        ' "created": [{"topic": "orders", "remote": "us.orders", "partitions": 6, "replication_factor": 3,'
        ' "configs": {"cleanup.policy": "compact"}, "records": 1200, "bytes_about": 50000}],'
        ' "there": [{"topic": "clicks", "remote": "us.clicks", "partitions": 6, "remote_partitions": 3, "grows": true, "records": 0, "bytes_about": 0}],'
        ' "configs": [{"remote": "us.clicks", "name": "retention.ms", "now": null, "then": "1000"}], "acls": [], "beside_the_records": [],'
        ' "groups": ["billing"], "groups_left_out": [], "left_out": [{"reason": "topics.exclude", "names": ["secret"]}],'
        ' "missing_rights": [{"cluster": "eu", "operations": ["Create"], "resources": [{"kind": "cluster", "name": "kafka-cluster"}],'
        ' "purposes": ["remote topics"], "remedy": "kafka-acls --add"}], "problems": ["us.clicks is written by others"]}]}'
    )  # fmt: skip
    asked: list[int] = []

    def planned() -> str:
        asked.append(1)
        return plan

    page = look(stage(orders(), plan=planned), "#/plan")
    assert not asked
    page.get_by_role("button", name="Query the clusters").click()
    shown = page.locator(".plan")
    expect(shown).to_contain_text(
        "us.orders from orders, 6 partitions, 3 replicas, 1,200 records to replicate; cleanup.policy=compact"
    )
    expect(shown).to_contain_text("retention.ms: not set → 1000")
    expect(shown).to_contain_text("us.clicks 3 → 6")
    expect(shown).to_contain_text("eu: Create on kafka-cluster")
    expect(shown.locator(".add")).to_have_count(1)
    expect(shown.locator(".change")).to_have_count(2)
    shoot(page, "plan")
    assert asked == [1]


def test_connectors_are_paused_and_resumed(stage: Staged, look: Look) -> None:
    there = stage(orders())
    page = look(there, "#/connectors")
    name = "us->eu.MirrorSourceConnector"
    page.get_by_role("button", name=f"Pause {name}").click()
    shoot(page, "connectors")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert not there.connectors.requests
    page.get_by_role("button", name=f"Pause {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name=f"Resume {name}")).to_be_enabled()
    assert there.connectors.requests == [f"PUT {name} pause"]
    there.connectors.read_only = True
    page.get_by_role("button", name=f"Restart {name}").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect(page.locator("main .notice")).to_contain_text("use twinlog serve")
    expect(page.get_by_role("button", name=f"Restart {name}")).to_be_disabled()


def test_landmarks_and_names(stage: Staged, look: Look) -> None:
    """For screen readers: landmarks, one first-level heading, a name for every control."""
    page = look(stage(troubled()))
    for place in (
        "#/",
        "#/topics",
        "#/events",
        "#/groups",
        "#/lost",
        "#/plan",
        "#/connectors",
        "#/flow/us-%3Eeu",
        "#/topic/us-%3Eeu/orders",
    ):
        page.goto(page.url.partition("#")[0] + place)
        page.wait_for_timeout(200)
        for role in ("banner", "navigation", "main"):
            expect(page.locator({"banner": "header.top", "navigation": "nav", "main": "main"}[role])).to_have_count(1)
        assert page.locator("main h1").count() == 1, place
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, a[href], input, select, [role=grid], [role=img], dialog[open]')]
                .filter(one => !one.closest('[hidden]') && one.getClientRects().length)
                .filter(one => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.textContent.trim()
                    || one.title || one.closest('th')?.title || one.labels?.length || one.closest('[aria-hidden=true]')))
                .map(one => one.outerHTML.slice(0, 120))"""
        )
        assert nameless == [], place
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(one => one.id)")
        assert len(ids) == len(set(ids)), place
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("link", name="Skip to content").press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page).to_have_url(re.compile("#/flow/us-%3Eeu$"))
