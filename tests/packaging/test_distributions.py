"""Both distributions build from their own sdists, away from the checkout, and contain what they should."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Ready tables of the tokenizer are half of it.
MAXIMUM_CODEC_WHEEL = 8_000_000


@pytest.fixture(scope="module")
def sdists(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sdists")
    for source in (repository / "recipe-py", repository):
        run(sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(source))
    return {path.name.split("-")[0]: path for path in folder.glob("*.tar.gz")}


@pytest.fixture(scope="module")
def wheels(repository: Path, sdists: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    # Dependencies compiled for the installed extension are reused; the crates of the sdist are compiled anew.
    target = os.environ.get("CARGO_TARGET_DIR", str(repository / "target"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(folder)]
    run(*command, *map(str, sdists.values()), cwd=folder, CARGO_TARGET_DIR=str(Path(target).resolve()))
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


def run(*command: str, cwd: Path | None = None, **variables: str) -> None:
    result = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:]


def contents(wheel: Path) -> dict[PurePosixPath, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(item.filename): item.file_size for item in archive.infolist()}


def sdist_names(sdist: Path) -> set[PurePosixPath]:
    with tarfile.open(sdist) as archive:
        return {PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in archive.getmembers()}


def test_file_names_carry_the_version(sdists: dict[str, Path], wheels: dict[str, Path], version: str) -> None:
    assert {name: path.name for name, path in sdists.items()} == {
        "deepseek_recipe": f"deepseek_recipe-{version}.tar.gz",
        "deepinfer": f"deepinfer-{version}.tar.gz",
    }
    assert wheels["deepinfer"].name == f"deepinfer-{version}-py3-none-any.whl"
    assert wheels["deepseek_recipe"].name.startswith(f"deepseek_recipe-{version}-cp311-abi3-")


@pytest.mark.parametrize("name", ["deepseek_recipe", "deepinfer"])
def test_wheel_holds_the_package_and_its_licence_only(
    wheels: dict[str, Path], sdists: dict[str, Path], name: str, version: str
) -> None:
    files = contents(wheels[name])
    information = PurePosixPath(f"{name}-{version}.dist-info")
    assert {information / "licenses" / "LICENSE", information / "licenses" / "NOTICE"} <= set(files)
    package = [path for path in files if path.parts[0] == name]
    metadata = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE", "NOTICE"}
    assert [path for path in files if path not in package and path.name not in metadata] == []
    # Whatever the source distribution holds of the package, the wheel holds, and the extension module beside it.
    prefix = ("python",) if name == "deepseek_recipe" else ()
    source = sdist_names(sdists[name])
    expected = {
        path.relative_to(*prefix) if prefix else path
        for path in source
        if path.parts[: len(prefix) + 1] == (*prefix, name)
    }
    compiled = {PurePosixPath("deepseek_recipe/_native.abi3.so")} if name == "deepseek_recipe" else set()
    assert set(package) == {path for path in expected if path.suffix} | compiled
    assert [path for path in files if "tests" in path.parts or "__pycache__" in path.parts] == []


def test_codec_wheel_is_typed_and_small(wheels: dict[str, Path]) -> None:
    assert {PurePosixPath("deepseek_recipe/py.typed"), PurePosixPath("deepseek_recipe/_native.pyi")} <= set(
        contents(wheels["deepseek_recipe"])
    )
    assert wheels["deepseek_recipe"].stat().st_size <= MAXIMUM_CODEC_WHEEL


def test_wheels_install_together_and_run(wheels: dict[str, Path], tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", str(tmp_path / "environment"))
    python = tmp_path / "environment" / "bin" / "python"
    run(str(python), "-m", "pip", "install", "--no-index", *map(str, wheels.values()), cwd=tmp_path)
    run(str(python), "-c", "import deepseek_recipe, deepinfer", cwd=tmp_path)
    run(str(python.with_name("recipe")), "--help", cwd=tmp_path)


@pytest.mark.parametrize("name", ["deepseek_recipe", "deepinfer"])
def test_sdist_holds_no_tests_of_other_packages(sdists: dict[str, Path], name: str) -> None:
    top = {path.parts[0] for path in sdist_names(sdists[name]) if path.parts}
    assert not top & {"tests", "fuzz", "docs", "xtask", "target", ".ci", ".venv"}
