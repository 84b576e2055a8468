"""Settings of all model tests."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    """As the engine's default: threads that wait for each other are far slower on a busy machine."""
    torch.set_num_threads(1)
