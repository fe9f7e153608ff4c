"""The selection of ``make test`` covers every module, shape and engine, and one Spark pipeline."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kstore_core.testing.kinds import KINDS
from tests.project.test_architecture import CORE
from tests.support.engines import ENGINES
from tests.support.places import ROOT, TESTS
from tests.support.selection import LATER, SPARK_PATH
