"""The web page in a real browser: chatting, stopping, editing, the live view of the cache; with pictures.

QUIRE_SCREENSHOTS=folder keeps the pictures there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

import pytest
from conftest import GEMMA, MODEL, Server
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

WAIT = 60


@pytest.fixture(scope="module")
def page_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture()
def browser(page_server: Server) -> Iterator[webdriver.Chrome]:
    yield from browse(page_server)


def browse(server: Server) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.get(server.url)
    yield driver
    mistakes = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    driver.quit()
    assert not mistakes, mistakes


def element(browser: webdriver.Chrome, identity: str):
    return browser.find_element(By.ID, identity)


def until(browser: webdriver.Chrome, holds) -> None:
    WebDriverWait(browser, WAIT, poll_frequency=0.1).until(lambda _: holds())


def turns(browser: webdriver.Chrome) -> list[str]:
    return [turn.text for turn in browser.find_elements(By.CSS_SELECTOR, "#talk .turn")]


def idle(browser: webdriver.Chrome) -> bool:
    return element(browser, "send").is_displayed()


def say(browser: webdriver.Chrome, text: str, wait: bool = True) -> None:
    element(browser, "question").send_keys(text, Keys.ENTER)
    if wait:
        until(browser, lambda: idle(browser) and len(turns(browser)) % 2 == 0)


def settings(browser: webdriver.Chrome, **values: str) -> None:
    if not element(browser, "settings").get_attribute("open"):
        browser.find_element(By.CSS_SELECTOR, "#settings summary").click()
    for name, value in values.items():
        field = element(browser, name)
        field.clear()
        field.send_keys(value)
    browser.find_element(By.CSS_SELECTOR, "#settings summary").click()


def picture(browser: webdriver.Chrome, name: str) -> None:
    if folder := os.environ.get("QUIRE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        assert browser.save_screenshot(str(Path(folder) / f"{name}.png"))


def test_a_conversation(browser: webdriver.Chrome) -> None:
    settings(browser, temperature="0", max_tokens="48")
    say(browser, "Tell me the capital of France.")
    first = turns(browser)
    assert "Paris" in first[1]
    assert "tokens of prompt" in first[1]
    say(browser, "And of Italy?")
    second = turns(browser)
    assert len(second) == 4
    note = element(browser, "figures").get_attribute("textContent")
    cached = int(note.split(" cached")[0].split()[-1])
    assert cached > 20, "the first turn is computed again"
    picture(browser, "chat")

    # Changing the second question takes the conversation back to it.
    browser.find_elements(By.CSS_SELECTOR, ".turn.user .edit")[1].click()
    assert element(browser, "question").get_attribute("value") == "And of Italy?"
    assert turns(browser)[:2] == first[:2] and len(turns(browser)) == 2
    element(browser, "question").clear()
    say(browser, "And of Spain?")
    assert "Madrid" in turns(browser)[3]


def test_an_answer_can_be_stopped(browser: webdriver.Chrome, page_server: Server) -> None:
    settings(browser, temperature="0.9", max_tokens="4000")
    say(browser, "Write a very long story about a lighthouse.", wait=False)
    until(browser, lambda: len(turns(browser)) == 2 and len(turns(browser)[1]) > 40)
    assert element(browser, "stop").is_displayed()
    element(browser, "stop").click()
    until(browser, lambda: idle(browser))
    assert "stopped" in element(browser, "figures").get_attribute("textContent")
    until(browser, lambda: page_server.call("GET", "/v1/cache").json()["models"][0]["running"] == 0)


def test_a_refusal_is_shown(browser: webdriver.Chrome) -> None:
    settings(browser, temperature="99")
    say(browser, "Hello", wait=False)
    until(browser, lambda: idle(browser) and browser.find_elements(By.CSS_SELECTOR, ".turn.failed"))
    assert "temperature" in browser.find_element(By.CSS_SELECTOR, ".turn.failed").text
    browser.get_log("browser")  # the browser writes down that a request was refused


def test_the_cache_is_shown_live(browser: webdriver.Chrome, page_server: Server) -> None:
    settings(browser, temperature="0", max_tokens="64")
    say(browser, "Tell me about rivers, please, and about the mountains they come from.")
    element(browser, "tab-cache").send_keys(Keys.ENTER)
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#pages .cell:not(.free)"))
    cell = browser.find_element(By.CSS_SELECTOR, "#pages .cell:not(.free)")
    webdriver.ActionChains(browser).move_to_element(cell).perform()
    until(browser, lambda: "tokens" in element(browser, "page-note").text)
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#tree li"))
    share_a_beginning(page_server)
    until(browser, lambda: browser.execute_script("return looks.length") >= 6)
    browser.set_window_size(1100, 1280)
    picture(browser, "cache")


@pytest.fixture()
def browser_of_two(start) -> Iterator[webdriver.Chrome]:
    yield from browse(start(models=[MODEL, GEMMA]))


def test_the_chosen_model_is_shown(browser_of_two: webdriver.Chrome) -> None:
    browser = browser_of_two
    until(browser, lambda: len(Select(element(browser, "model")).options) == 2)
    settings(browser, temperature="0", max_tokens="8")
    say(browser, "Tell me about rivers, please, and about the mountains they come from.")
    element(browser, "tab-cache").click()
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#pages .cell:not(.free)"))
    until(browser, lambda: browser.execute_script("return looks.length") >= 2)
    Select(element(browser, "model")).select_by_visible_text(Path(GEMMA).stem)
    until(browser, lambda: not browser.find_elements(By.CSS_SELECTOR, "#pages .cell"))
    assert browser.execute_script("return before.cache.model") == Path(GEMMA).stem
    assert browser.execute_script("return looks.length") <= 1, "what came before was of the other"


def share_a_beginning(server: Server) -> None:
    """Requests with a common beginning, so that there is something to see."""
    for question in ("Name a river.", "Name a mountain.", "Name a sea."):
        messages = [{"role": "system", "content": "Answer in one word. " * 20}, {"role": "user", "content": question}]
        server.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 40})


def test_dark_and_narrow(browser: webdriver.Chrome) -> None:
    settings(browser, temperature="0", max_tokens="32")
    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    element(browser, "theme").click()
    after = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert before != after
    say(browser, "Tell me the capital of France.")
    picture(browser, "dark")
    browser.set_window_size(500, 850)  # Chromium's windows are no narrower; the view is
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390, "a phone has to scroll sideways"
    picture(browser, "phone")
    element(browser, "tab-cache").click()
    until(browser, lambda: browser.find_elements(By.CSS_SELECTOR, "#pages .cell"))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390


def test_the_keyboard_is_enough(browser: webdriver.Chrome) -> None:
    tab = element(browser, "tab-chat")
    tab.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == element(browser, "tab-cache")
    assert element(browser, "cache").is_displayed()
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert element(browser, "chat").is_displayed()
