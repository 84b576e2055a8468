"""Build metadata of `deepinfer`: its version, and the codec of the same version that it depends on.

The workspace Cargo.toml is the one place that states the version of both distributions. An sdist carries the result in
its PKG-INFO, from which the build backend reads it back, so this code runs in a checkout only.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PRE_RELEASE = {"alpha": "a", "beta": "b", "rc": "rc"}


def python_version(cargo_version: str) -> str:
    """The Python spelling of a Cargo version: 1.0.0-alpha.1 is 1.0.0a1."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?", cargo_version)
    if match is None:
        raise ValueError(f"Cargo.toml: version {cargo_version!r} is neither X.Y.Z nor X.Y.Z-{{alpha,beta,rc}}.N")
    release, phase, number = match.groups()
    return f"{release}{PRE_RELEASE[phase]}{number}" if phase else release


class WorkspaceVersion(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        workspace = tomllib.loads((Path(self.root) / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
        version = python_version(workspace["package"]["version"])
        metadata["version"] = version
        metadata["dependencies"] = [f"deepseek-recipe=={version}"]
