"""What tests of several folders share."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRE_RELEASE = {"-alpha.": "a", "-beta.": "b", "-rc.": "rc"}


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test touches the state of the user who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def version(repository: Path) -> str:
    """The version of both distributions, as Python spells what Cargo.toml states."""
    workspace = tomllib.loads((repository / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    stated: str = workspace["package"]["version"]
    for cargo, python in PRE_RELEASE.items():
        stated = stated.replace(cargo, python)
    return stated
