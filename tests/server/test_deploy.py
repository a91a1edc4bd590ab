"""What deploy/ says of the server is true of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from conftest import QUIRE, ROOT, Server

DEPLOY = ROOT / "deploy"


def expressions() -> list[str]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_of_the_dashboard_is_exported(server: Server) -> None:
    server.client().completions.create(model="smol", prompt="Once", max_tokens=3)
    exported = {re.match(r"\w+", line).group() for line in server.call("GET", "/metrics").text.splitlines() if line and line[0] != "#"}
    asked = {name for expression in expressions() for name in re.findall(r"\bquire_\w+", expression)}
    assert len(asked) > 20
    assert asked <= exported, asked - exported
    missing = {name for name in exported if not any(name.removesuffix(end) in " ".join(expressions()) for end in ("_sum", "_count", "_bucket"))}
    assert missing <= {"quire_engine_steps_total", "quire_prompt_tokens_cached_total"}, "what is exported is shown"


def test_labels_of_the_dashboard_exist(server: Server) -> None:
    metrics = server.call("GET", "/metrics").text
    dashboard = (DEPLOY / "grafana-dashboard.json").read_text()
    for label in set(re.findall(r"\{\{(\w+)\}\}", dashboard)):
        assert f'{label}="' in metrics, label


def options() -> set[str]:
    said = subprocess.run([QUIRE, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))


@pytest.mark.parametrize("file", ["quire.service", "Containerfile"])
def test_the_options_exist(file: str) -> None:
    lines = [line for line in (DEPLOY / file).read_text().splitlines() if line.startswith(("ExecStart=", "ENTRYPOINT"))]
    used = {option for line in lines for option in re.findall(r"(?<=[ \"])--?[a-z][\w-]*", line)}
    assert used and used <= options(), used - options()


def test_neither_runs_as_root() -> None:
    unit = (DEPLOY / "quire.service").read_text()
    assert "\nDynamicUser=yes\n" in unit and "\nNoNewPrivileges=yes\n" in unit
    stop = int(re.search(r"TimeoutStopSec=(\d+)", unit).group(1))
    assert stop > int(re.search(r"--drain-seconds (\d+)", unit).group(1)), "or answers under way are cut off"
    final = (DEPLOY / "Containerfile").read_text().rpartition("\nFROM ")[2]
    assert int(re.search(r"^USER (\d+)$", final, re.M).group(1)) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path) -> None:
    unit = tmp_path / "quire.service"
    unit.write_text((DEPLOY / "quire.service").read_text().replace("/usr/local/bin/quire", QUIRE))
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert "quire.service" not in checked.stderr, checked.stderr
