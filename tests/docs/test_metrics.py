"""The page of metrics and the dashboard name what a server really shows, and all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import deepinfer.demo
from tests.e2e.server_process import ServerProcess, chat_body, eventually

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| .+ \|$", PAGE, re.MULTILINE)
QUERIES = re.findall(r"^```promql\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
DASHBOARD = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
PARTS_OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")
# Of the scrape itself, not of the server.
TARGET_LABELS = {"job", "instance"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Metrics by the names that queries use, after an answer."""

    gateway: dict[str, Metric]
    upstream: dict[str, Metric]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """What a gateway shows, and a server behind it."""
    script = Path(deepinfer.demo.__file__).with_name("weather.toml")
    folder = tmp_path_factory.mktemp("logs")
    with (
        ServerProcess(folder / "upstream", "--engine", "scripted", "--script", str(script)) as upstream,
        ServerProcess(folder / "gateway", "--engine", "remote", "--upstream", upstream.url) as gateway,
    ):
        assert gateway.http.post("/v1/chat/completions", json=chat_body("Hi")).status_code == 200
        # Counted once all of the answer is on its way.
        eventually(lambda: "deepinfer_requests_total{" in gateway.http.get("/metrics").text)
        return Shown(metrics_at(gateway), metrics_at(upstream))


@pytest.fixture(scope="module")
def families(shown: Shown) -> dict[str, Metric]:
    """All there are."""
    return shown.gateway


def metrics_at(server: ServerProcess) -> dict[str, Metric]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(server.http.get("/metrics").text)
        if not family.name.endswith("_created")
    }


def dashboard_queries(panels: list[dict[str, Any]]) -> Iterator[str]:
    for panel in panels:
        yield from (target["expr"] for target in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


EVERY_QUERY = [*QUERIES, *dashboard_queries(DASHBOARD["panels"])]


def metrics_of(query: str) -> set[str]:
    return set(re.findall(r"\b(?:deepinfer|process)_\w+", query))


def labels_of(query: str) -> set[str]:
    selected = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", query)
    grouped = re.findall(r"\b(?:by|without)\s*\(([^)]*)\)", query)
    return {*selected, *(name.strip() for names in grouped for name in names.split(","))}


def base_of(metric: str, families: dict[str, Metric]) -> str:
    """The family of a series: that of its histogram, for the parts of one."""
    for part in PARTS_OF_A_HISTOGRAM:
        base = metric.removesuffix(part)
        if base != metric and base in families and families[base].type == "histogram":
            return base
    return metric


def test_every_metric_stands_in_the_table_with_type_and_labels(families: dict[str, Metric]) -> None:
    told = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in ROWS}
    assert len(told) == len(ROWS)
    found = {
        name: (family.type, {label for sample in family.samples for label in sample.labels} - {"le"})
        for name, family in families.items()
    }
    assert told == found


def test_what_the_table_keeps_for_gateways_only_gateways_show(shown: Shown) -> None:
    kept = {name for name, line in re.findall(r"^\| `(\w+)` (.+)$", PAGE, re.MULTILINE) if " only: " in line}
    assert kept and set(shown.gateway) - set(shown.upstream) == kept


@pytest.mark.parametrize("query", EVERY_QUERY)
def test_a_query_asks_for_what_is_shown(query: str, families: dict[str, Metric]) -> None:
    metrics = {base_of(metric, families) for metric in metrics_of(query)}
    assert metrics and metrics <= set(families)
    known = {label for name in metrics for sample in families[name].samples for label in sample.labels}
    assert labels_of(query) <= known | TARGET_LABELS


def test_the_dashboard_shows_every_metric_of_our_own(families: dict[str, Metric]) -> None:
    on_it = {
        base_of(metric, families) for query in dashboard_queries(DASHBOARD["panels"]) for metric in metrics_of(query)
    }
    assert {name for name in families if name.startswith("deepinfer_")} <= on_it


def test_panels_of_the_dashboard_lie_side_by_side() -> None:
    taken = [
        (column, line)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken)) and max(column for column, _ in taken) < 24
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
