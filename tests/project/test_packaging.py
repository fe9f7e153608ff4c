"""The sdist and the wheel, built from a copy without anything compiled, installed alone."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import venv
import zipfile
from pathlib import Path

import pytest
from setuptools.dist import Distribution

from tests.support.places import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".*", "*.so", "*.c", "*.egg-info", "__pycache__", "build", "dist", "site", "tests",
    "demo-output", "results", "spark-warehouse",
)  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("source") / "kstore", ignore=LEFT_OUT)


@pytest.fixture(scope="module")
def built(copy, tmp_path_factory):
    """The sdist, and the wheel that is built from it.

    For speed one module in ten is compiled, from the C source of the module that the tests run with
    and without optimising; of the others that the sdist has, those modules are taken as they are.
    """
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out]
    done = run([*build, "--sdist", copy])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (sdist,) = out.glob("*.tar.gz")
    run(["tar", "-xzf", sdist, "-C", out])
    unpacked = out / sdist.name.removesuffix(".tar.gz")
    for number, source in enumerate(sorted(unpacked.rglob("*.pyx"))):
        here = ROOT / source.relative_to(unpacked)
        shutil.copy(here.with_suffix(".c"), source.parent)
        if number % 10:
            base = ROOT / "plugins" if (ROOT / "plugins") in here.parents else ROOT
            there = unpacked / build_folder() / here.parent.relative_to(base)
            there.mkdir(parents=True, exist_ok=True)
            suffix = sysconfig.get_config_var("EXT_SUFFIX")
            shutil.copy(here.with_suffix(suffix), there)
    compiler = out.with_name("cc")
    compiler.write_text(f'#!/bin/sh\nexec {sysconfig.get_config_var("CC")} "$@" -O0\n')
    compiler.chmod(0o755)
    done = run([*build, "--wheel", unpacked], env={**os.environ, "CC": str(compiler)})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def build_folder():
    """Where setuptools compiles to, and leaves alone what is newer than its source."""
    build = Distribution().get_command_obj("build")
    build.ensure_finalized()
    return build.build_platlib


def run(command, **arguments):
    return subprocess.run(command, capture_output=True, text=True, check=False, **arguments)


def test_the_sdist_has_the_sources_and_nothing_compiled(built):
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in ("kstore_core", "plugins")
        for suffix in ("py", "pyx", "pxd", "pyi", "typed")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    }
    assert sources - names == set()
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= names
    assert not [name for name in names if name.endswith((".c", ".so", ".pyc"))]


@pytest.mark.parametrize(
    "package",
    [ROOT / "kstore_core", *(path.parent for path in (ROOT / "plugins").glob("*/__init__.py"))],
    ids=lambda package: package.name,
)
def test_every_package_says_that_it_is_typed(package):
    assert (package / "py.typed").is_file()


def test_the_wheel_has_every_package_compiled(built):
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
    modules = {
        path.stem for base in ("kstore_core", "plugins") for path in (ROOT / base).rglob("*.pyx")
    }
    compiled = {Path(name).name.split(".")[0] for name in names if name.endswith(".so")}
    assert compiled == modules
    for needed in (
        "kstore_core/py.typed",
        *(f"{path.parent.name}/py.typed" for path in (ROOT / "plugins").glob("*/__init__.py")),
        "kstore_memory/__init__.py",
        "kstore_rocksdb/__init__.py",
        "pyspark_kstore/__init__.py",
        "pyspark_kstore_kafka/__init__.py",
    ):
        assert needed in names
    assert not [name for name in names if name.split("/")[0] in {"tests", "docs", "plugins"}]


def test_the_wheel_works_alone(built, tmp_path):
    home = tmp_path / "venv"
    venv.create(home)
    python = home / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    done = run([*pip, built[1]], env=environment)
    assert done.returncode == 0, done.stderr
    script = textwrap.dedent("""
        from kstore_core import open_state, serdes, stores

        spec = stores.versioned_key_value_with_headers(
            "rates", 86_400_000, key=serdes.UTF8, value=serdes.FLOAT64
        )
        with open_state("state", engine="memory") as state:
            store = state.open(spec)
            store.put("USD", 1.5, timestamp=1000, headers=[("a", b"b")])
            store.put("USD", 1.25, timestamp=2000)
            print(store.get("USD", as_of=1500).value, list(store.get("USD", as_of=1500).headers))
        try:
            open_state("state", engine="rocksdb").open(stores.key_value("s"))
        except Exception as error:
            print(type(error).__name__, "pip install 'rocksdict>=" in str(error))

        import pkgutil, pyspark_kstore, pyspark_kstore_kafka  # as Spark does, and without Spark
        print(*sorted(m.name for m in pkgutil.iter_modules() if m.name.startswith("pyspark_")))
        print(hasattr(pyspark_kstore, "DefaultSource"))
    """)
    done = run([python, "-W", "error", "-c", script], env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "1.5 [Header('a', b'b')]",
        "EngineUnavailableError True",
        "pyspark_kstore pyspark_kstore_kafka",
        "False",
    ]
    done = run([home / "bin" / "kstore", "engines"], env=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'click>=8.1' 'rich>=13'" in done.stderr


def test_a_missing_compiler_is_named(copy, tmp_path):
    one = shutil.copytree(copy, tmp_path / "one")
    for source in (one / "kstore_core").rglob("*.pyx"):
        if source.stem != "murmur2":
            source.unlink()
    environment = {**os.environ, "CC": "no-such-compiler", "PATH": "/nonexistent"}
    command = [sys.executable, "setup.py", "build_ext", "--build-lib", tmp_path / "lib",
               "--build-temp", tmp_path / "temp"]  # fmt: skip
    done = run(command, env=environment, cwd=one)
    assert done.returncode != 0
    assert "no C compiler was found" in done.stderr
    assert "apt-get install gcc" in done.stderr


def test_missing_python_headers_are_named(copy, tmp_path):
    script = textwrap.dedent(f"""
        import runpy, sys, sysconfig
        original = sysconfig.get_path
        sysconfig.get_path = lambda name, *rest: (
            "/nonexistent" if name == "include" else original(name, *rest)
        )
        sys.argv = ["setup.py", "build_ext", "--build-lib", {str(tmp_path / "lib")!r}]
        runpy.run_path("setup.py", run_name="__main__")
    """)
    done = run([sys.executable, "-c", script], cwd=copy)
    assert done.returncode != 0
    assert "apt-get install python3-dev" in done.stderr
