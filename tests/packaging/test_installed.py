"""The installed packages are the ones of this checkout, not their older namesakes of the public index."""

import sysconfig
from importlib import metadata
from pathlib import Path

import pytest

import deepinfer
import deepseek_recipe


@pytest.mark.parametrize("name", ["deepseek-recipe", "deepinfer"])
def test_version_is_the_one_of_the_workspace(name: str, version: str) -> None:
    assert metadata.version(name) == version


def test_engine_pins_the_codec_to_its_own_version(version: str) -> None:
    unconditional = [line for line in metadata.requires("deepinfer") or [] if "extra ==" not in line]
    assert unconditional == [f"deepseek-recipe=={version}"]


def test_codec_needs_no_python_package() -> None:
    assert not metadata.requires("deepseek-recipe")


def test_codec_lies_where_the_wheel_put_it() -> None:
    site_packages = Path(sysconfig.get_path("platlib"))
    assert Path(deepseek_recipe.__file__).parent == site_packages / "deepseek_recipe"


def test_codec_has_this_projects_interface() -> None:
    expected = {"Options", "Decoder", "RequestError", "Tokenizer", "encode", "encode_conversation", "count_tokens"}
    assert expected <= set(dir(deepseek_recipe))


def test_engine_is_installed_from_the_checkout(repository: Path) -> None:
    assert Path(deepinfer.__file__).parent == repository / "deepinfer"


@pytest.mark.parametrize(
    ("command", "target"), [("deepinfer", "deepinfer.cli:main"), ("recipe", "deepseek_recipe.cli:main")]
)
def test_command_is_installed(command: str, target: str) -> None:
    (entry,) = metadata.entry_points(group="console_scripts", name=command)
    assert entry.value == target
    assert callable(entry.load())


def test_no_extension_module_in_the_source_tree(repository: Path) -> None:
    """One left there by an editable installation would shadow the installed one."""
    assert not list((repository / "recipe-py" / "python").rglob("*.so"))
