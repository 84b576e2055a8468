"""The figures of `deepinfer bench gateway` as a picture. Only here is matplotlib used, which may be missing."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from deepinfer.mistakes import CommandError

_SHARES = ("p50", "p95", "p99")


def require() -> None:
    """Raise `CommandError` if matplotlib is missing: before minutes of measuring, not after."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise CommandError('--plot needs matplotlib; run: pip install "deepinfer[bench]"') from None


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the parts of `result` that were measured to `path`, a PNG. Raises `CommandError`."""
    from matplotlib.figure import Figure

    parts = [part for part in ("overhead", "routing") if part in result]
    if not parts:
        raise CommandError("--plot has nothing to show: neither rounds nor conversations were measured")
    figure = Figure(figsize=(5.5 * len(parts), 4.5), layout="constrained")
    panels = figure.subplots(1, len(parts), squeeze=False)[0]
    for part, panel in zip(parts, panels, strict=True):
        _PANELS[part](panel, result[part])
    figure.suptitle(result["machine"], fontsize=8)
    try:
        figure.savefig(path, format="png", dpi=150)
    except OSError as error:
        raise CommandError(f"--plot {path}: {error.strerror}; give a file that can be written") from None


def _draw_overhead(panel: Any, overhead: dict[str, Any]) -> None:
    labels = [f"{words}\n{share}" for words in ("first token", "between") for share in _SHARES]
    for place, (way, label) in enumerate((("alone", "upstream alone"), ("gateway", "through the gateway"))):
        heights = [
            median(round_[name][share] for round_ in overhead[way])
            for name in ("first_token", "between_tokens")
            for share in _SHARES
        ]
        panel.bar([x + 0.4 * place - 0.2 for x in range(len(labels))], heights, width=0.4, label=label)
    panel.set_xticks(range(len(labels)), labels, fontsize=8)
    panel.set_ylabel("milliseconds")
    panel.set_title("Latency")
    panel.legend()


def _draw_routing(panel: Any, routing: dict[str, Any]) -> None:
    names = {"infinite": "one upstream,\ninfinite", "affinity": "gateway,\naffinity", "round_robin": "round\nrobin"}
    bars = panel.bar(list(names.values()), [100 * routing[name]["cached_share"] for name in names], width=0.6)
    panel.bar_label(bars, fmt="%.1f %%")
    panel.set_ylabel("cached tokens of prompts, %")
    panel.set_title("Prefix caches")


_PANELS = {"overhead": _draw_overhead, "routing": _draw_routing}
