"""The lab's report in a real browser: every chart is drawn, on a wide screen, on a phone, in the dark and for paper."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from conftest import QUIRE, ROOT
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    model = ROOT / "tests/data/models/llama.gguf"
    subprocess.run([str(QUIRE), "lab", "all", "--quick", "-m", str(model), "-o", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture()
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    yield driver
    mistakes = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    driver.quit()
    assert not mistakes, mistakes


# Charts on which something is drawn: pixels that are not like the first.
INKED = """return [...document.querySelectorAll("canvas")].filter((canvas) => {
  const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return pixels.some((pixel) => pixel !== pixels[0]);
}).length"""


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light")])
def test_every_chart_is_drawn(browser: webdriver.Chrome, report: Path, width: int, scheme: str) -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(f"file://{report}/report.html")
    results = json.loads((report / "results.json").read_text())
    charts = [chart for experiment in results["experiments"] for chart in experiment["charts"]]
    assert len(charts) > 14
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(INKED) == len(charts))
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width, "nothing sticks out"
    notes = browser.execute_script("return [...document.querySelectorAll('canvas')].map((c) => c.closest('figure').innerText)")
    assert all(results["conditions"]["machine"] in note for note in notes), "every chart names the machine"


def test_it_prints(browser: webdriver.Chrome, report: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    browser.get(f"file://{report}/report.html")
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(INKED) > 0)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    assert browser.execute_script(INKED) > 0, "and is there again afterwards"
