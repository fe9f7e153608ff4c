"""The disk that does not sync: which calls fail, in C and in threads too, and which do not."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.outcomes import Skipped

from kstore_core.testing import EngineSuite
from kstore_core.testing.engine_suite.lifetime import power
from kstore_core.testing.syncs import fail_syncs
from kstore_memory import MemoryEngine

HERE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")

SETUP = """
import ctypes, errno, mmap, os, sys, threading
from pathlib import Path
from kstore_core.testing.syncs import fail_syncs, has_open_files
root = Path(sys.argv[1])
path = root / "file"
path.write_bytes(b"x" * 4096)
plain = os.open(path, os.O_RDWR)
synchronous = os.open(path, os.O_RDWR | os.O_DSYNC)
mapped = mmap.mmap(plain, 4096)
assert has_open_files(root) and not has_open_files(root / "none")
refused = fail_syncs()
if refused:
    print("refused", refused)
    sys.exit()
try:
    {call}
    print("done")
except OSError as error:
    print(errno.errorcode[error.errno])
"""
FAIL = {
    "os.fsync(plain)": "EIO",
    "os.fdatasync(plain)": "EIO",
    "mapped.flush()": "EIO",
    "os.write(synchronous, b'y')": "EIO",
    "os.pwrite(synchronous, b'y', 0)": "EIO",
    "os.pwritev(plain, [b'y'], 0, os.RWF_DSYNC)": "EIO",
    "os.open(path, os.O_WRONLY | os.O_SYNC)": "EIO",
    "assert ctypes.CDLL(None).syncfs(plain) == 0": "",
    "os.write(plain, b'y')": "done",
    "os.pwritev(plain, [b'y'], 0)": "done",
    "os.open(path, os.O_WRONLY)": "done",
    "os.sync()": "",
}


@pytest.mark.skipif(not HERE, reason="needs Linux on x86-64 or ARM")
@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("call", FAIL)
def test_calls_that_sync_fail(tmp_path: Path, call: str, threaded: bool) -> None:
    code = SETUP.replace("{call}", call)
    if threaded:  # one that was there before the filter
        before, after = code.split("refused = ")
        body = "\n    ".join(("refused = " + after).replace("sys.exit()", "return").splitlines())
        code = f"{before}\ngo = threading.Event()\ndef work():\n    go.wait()\n    {body}\n"
        code = code.replace("refused = fail_syncs()", "refused = answers[0]")
        code += "answers = []\nthread = threading.Thread(target=work)\nthread.start()\n"
        code += "answers.append(fail_syncs())\ngo.set()\nthread.join()\n"
    ran = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False
    )
    if ran.stdout.startswith("refused"):
        pytest.skip(ran.stdout)
    assert ran.stdout.strip() == FAIL[call], ran.stderr


def test_elsewhere_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert "not on linux riscv64" in str(fail_syncs()).replace(sys.platform, "linux")


def test_what_cannot_be_told_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Persistent(MemoryEngine):
        capabilities = replace(MemoryEngine.capabilities, persistent=True)

    suite = EngineSuite()
    suite.engine, suite.root = Persistent(), Path("nowhere")
    monkeypatch.setattr(power, "unsynced_writer", lambda *_: "skipped the kernel says no")
    with pytest.raises(Skipped, match="a sync cannot be tested here: the kernel says no"):
        suite.test_no_sync_returns_before_it_is_done()
