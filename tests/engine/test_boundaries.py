"""What the engine's parts must not import, and settings that clash."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deepinfer.backends.native import NativeEngine
from deepinfer.backends.scripted import ScriptedEngine
from deepinfer.config import EngineConfig
from deepinfer.core import Engine
from deepinfer.errors import EngineError

TORCH_FREE = (
    "deepinfer",
    "deepinfer.core",
    "deepinfer.errors",
    "deepinfer.config",
    "deepinfer.backends.scripted",
    "deepinfer.backends.stream",
    "deepinfer.cache.allocator",
    "deepinfer.cache.layout",
    "deepinfer.inspection",
    "deepinfer.model.config",
    "deepinfer.model.files",
    "deepinfer.model.presets",
    "deepinfer.model.token_map",
    "deepinfer.scheduler.scheduler",
)


def test_the_control_plane_imports_no_torch() -> None:
    code = f"import sys, {', '.join(TORCH_FREE)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("block_size", 0), ("context_length", 200_000), ("max_running_sequences", 513), ("torch_threads", -1)],
)
def test_settings_that_clash_are_refused(field: str, value: int) -> None:
    with pytest.raises(EngineError, match=f"{field}.*{value}") as refusal:
        EngineConfig(**{field: value})  # type: ignore[arg-type]
    assert refusal.value.code == "invalid_configuration"


def test_backends_are_engines() -> None:
    """Checked by mypy."""
    backends: list[type[Engine]] = [NativeEngine, ScriptedEngine]
    assert len(backends) == 2
