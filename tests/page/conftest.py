"""The page in Debian's Chromium, driven by playwright. Screenshots are saved in build/screenshots."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect, sync_playwright

from tests.page.scenes import Flow, Stage
from twinlog.http import page_api

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
# Chromium's own messages about an unreachable server, which the page handles.
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
    """Pages poll four times a second, so that tests need not wait."""
    monkeypatch.setattr(page_api, "_POLL_MS", 250)
    monkeypatch.setattr(page_api, "_POLL_COST_RATIO", 0)
    monkeypatch.setattr(page_api, "_FRESH_S", 0.0)


@pytest.fixture
def stage() -> Iterator[Callable[..., Stage]]:
    """`stage(flow, ...)`: a server with these flows."""
    stages: list[Stage] = []

    def make(*flows: Flow, plan: page_api.Plan | None = None) -> Stage:
        made = Stage(flows, plan=plan)
        made.open()
        stages.append(made)
        return made

    yield make
    for each in stages:
        each.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """`look(stage, "#/topics")`: a page after its first response. No console errors, and no requests to other hosts."""
    errors: list[str] = []
    hosts: set[str] = set()
    allowed: set[str] = set()
    pages: list[Page] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(words in message.text for words in _NETWORK):
            errors.append(message.text)

    def on_request(request: Request) -> None:
        hosts.add(request.url.split("/")[2])

    def open_page(stage: Stage, path: str = "", size: ViewportSize = DESK, colours: str = "light") -> Page:
        context = browser.new_context(viewport=size, color_scheme="dark" if colours == "dark" else "light")
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", on_console)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", on_request)
        allowed.add(stage.url.split("/")[2])
        page.goto(f"{stage.url}/{path}")
        page.wait_for_selector("body[data-updates]")
        pages.append(page)
        return page

    expect.set_options(timeout=60_000)
    yield open_page
    for page in pages:
        page.context.close()
    assert not errors
    assert hosts <= allowed


def shoot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def focused(page: Page) -> str:
    found: Sequence[str] = page.evaluate("[document.activeElement.tagName, document.activeElement.type || '']")
    return " ".join(found).strip()
