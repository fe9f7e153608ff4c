"""Fuzz families of decoders with atheris: ``python -m tests.fuzz [FAMILY …] [--runs N]``.

Each family is fuzzed by a process of its own, one after the other. Inputs that led somewhere new
are kept below ``--corpus``, where the next run goes on. An input that fails is printed, with its
fault.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from tests.fuzz.family import FAMILIES, MAX_BYTES, family_of, shares

_SHARED_MEMORY = Path("/dev/shm")
_LIMITS = [f"-max_len={MAX_BYTES}", "-timeout=60", "-rss_limit_mb=2048"]


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz one family in this process, which libFuzzer ends."""
    import atheris

    # What is compiled tells it nothing; the plain decoders beside it do.
    with atheris.instrument_imports(include=["tests.reference"]):
        import_module(f"tests.fuzz.{name}")
    atheris.Setup([sys.argv[0], *arguments], family_of(name).check)
    atheris.Fuzz()


def run(name: str, runs: int, seed: int, seeds: Path, found: Path) -> int:
    """Fuzz one family in a process of its own; returns 0 where it found no fault."""
    seeds.mkdir(parents=True)
    for number, data in enumerate(family_of(name).corpus()):
        (seeds / str(number)).write_bytes(data)
    found.mkdir(parents=True, exist_ok=True)
    code = subprocess.call(
        [sys.executable, "-m", "tests.fuzz", name, "--here", f"-runs={runs}", f"-seed={seed}",
         f"-artifact_prefix={found}/fault-", *_LIMITS, str(found), str(seeds)],
        env={**os.environ, "TMPDIR": str(seeds.parent)},  # libFuzzer ends without a farewell
    )  # fmt: skip
    if code == 0:
        sys.stdout.write(f"{name}: {runs} inputs, no fault\n")
    for path in sorted(found.glob("fault-*")):
        data = path.read_bytes().hex()
        sys.stdout.write(f'fault: family_of("{name}").check(bytes.fromhex("{data}"))\n')
    sys.stdout.flush()
    return code


def main() -> int:
    if "--here" in sys.argv[2:3]:
        fuzz(sys.argv[1], sys.argv[3:])
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--runs", type=int, default=10_000_000, help="inputs, of all together")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with")
    parser.add_argument("--corpus", type=Path, help="a directory; left out, a temporary one")
    given = parser.parse_args()
    chosen = given.families or list(FAMILIES)
    memory = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        root = Path(directory)
        found = given.corpus or root / "found"
        return max(
            run(name, runs, given.seed, root / "seeds" / name, found / name)
            for name, runs in shares(chosen, given.runs).items()
        )


if __name__ == "__main__":
    sys.exit(main())
