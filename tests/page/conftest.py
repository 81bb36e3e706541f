"""The page in a real browser: Debian's Chromium, driven by playwright. Screenshots are kept in build/screenshots."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect, sync_playwright
from tests.page.stage import Flow, Stage

from twinlog.surface.http import api

SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESK: ViewportSize = {"width": 1360, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What Chromium itself says of a server that is gone; the page is meant to live with it.
_NETWORK = ("net::ERR_", "Failed to load resource")

Look = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages ask four times a second, so that tests need not wait."""
    monkeypatch.setattr(api, "_AGAIN_MS", 250)
    monkeypatch.setattr(api, "_SHARE", 0)
    monkeypatch.setattr(api, "_FRESH_S", 0.0)


@pytest.fixture
def stage() -> Iterator[Callable[..., Stage]]:
    """`stage(flow, ...)`: a server that shows these flows."""
    stages: list[Stage] = []

    def make(*flows: Flow, plan: api.Plan | None = None) -> Stage:
        made = Stage(flows, plan=plan)
        made.open()
        stages.append(made)
        return made

    yield make
    for each in stages:
        each.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """`look(stage, "#/topics")`: a page that has had its first answer. None may complain, or ask another host."""
    complaints: list[str] = []
    hosts: set[str] = set()
    allowed: set[str] = set()
    pages: list[Page] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(words in message.text for words in _NETWORK):
            complaints.append(message.text)

    def asked(request: Request) -> None:
        hosts.add(request.url.split("/")[2])

    def open_page(stage: Stage, place: str = "", size: ViewportSize = DESK, colours: str = "light") -> Page:
        context = browser.new_context(viewport=size, color_scheme="dark" if colours == "dark" else "light")
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", asked)
        allowed.add(stage.url.split("/")[2])
        page.goto(f"{stage.url}/{place}")
        page.wait_for_selector("body[data-updates]")
        pages.append(page)
        return page

    expect.set_options(timeout=20_000)
    yield open_page
    for page in pages:
        page.context.close()
    assert not complaints
    assert hosts <= allowed


def shoot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def focused(page: Page) -> str:
    found: Sequence[str] = page.evaluate("[document.activeElement.tagName, document.activeElement.type || '']")
    return " ".join(found).strip()
