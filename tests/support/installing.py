"""Distributions for one test: a module and a ``.dist-info`` beside it, put on the path."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kstore_core import discovery
from kstore_core.discovery import registry
from kstore_core.hookspecs import ENGINES
from tests.support.places import TESTS

SAMPLE = TESTS / "sample_plugin"

Install = Callable[..., str]


@contextmanager
def forgetting(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what plug-ins have been loaded."""
    patch.setattr(registry, "_loaded", dict(registry._loaded))
    discovery.installed_plugins.cache_clear()
    modules = set(sys.modules)
    yield
    discovery.installed_plugins.cache_clear()
    for module in set(sys.modules) - modules:
        if module.startswith(("plugin_", "kstore_sample")):
            del sys.modules[module]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what plug-ins this test has loaded."""
    with forgetting(monkeypatch):
        yield


@pytest.fixture
def sample(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the sample distribution on the path."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    return SAMPLE


@pytest.fixture
def install(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a plug-in of one module: its name, its source, and the entry point's group."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def put(
        name: str,
        source: str,
        *,
        group: str = ENGINES,
        distribution: str | None = None,
        module: str | None = None,
    ) -> str:
        module = module or f"plugin_{name.replace('-', '_')}"
        distribution = distribution or f"kstore-{name}"
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        info = site / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        importlib.invalidate_caches()
        return module

    return put
