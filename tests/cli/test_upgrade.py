"""``kstore upgrade``."""

import json

import pytest

from kstore_core import open_state, stores
from kstore_core.cli.commands import upgrade as command
from kstore_core.maintenance.finish_upgrade.finishing import Progress
from tests.support.golden import unpack

pytestmark = pytest.mark.usefixtures("left_sound")

HALF = "kv_half_migrated_timestamped_to_headers"
HEADERS = stores.timestamped_key_value_with_headers


@pytest.fixture
def half(tmp_path):
    return unpack(HALF, tmp_path)


def test_the_rest_is_moved_and_said(run, half):
    before = run("dump", half, HALF, "--json").out
    ran = run("upgrade", half, HALF)
    assert ran.code == 0
    assert ran.out == (
        f"{HALF} now has the format timestamped_headers: moved 87 rows of the format timestamped; "
        "dropped keyValueWithTimestamp\n"
    )
    after = run("dump", half, HALF, "--json")
    assert after.out == before
    assert "upgraded" not in after.err
    again = run("upgrade", half, HALF)
    assert (again.code, again.err) == (0, "")
    assert (
        again.out == f"{HALF} already has the format timestamped_headers; no row had to be moved\n"
    )


def test_json(run, half):
    assert run("upgrade", half, HALF, "--json").document == {
        "path": str(half),
        "store": HALF,
        "before": "timestamped_headers",
        "format": "timestamped_headers",
        "moved": {"timestamped": 87},
        "dropped": ["keyValueWithTimestamp"],
    }


@pytest.mark.parametrize(
    ("to", "name"), [("timestamped", "timestamped"), ("headers", "timestamped_headers")]
)
def test_a_store_that_says_what_it_is_needs_no_options(run, tmp_path, to, name):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        state.open(stores.key_value("s")).put(b"k", b"v")
    document = run("upgrade", root, "s", "--to", to, "--json").document
    assert (document["before"], document["format"]) == ("plain", name)
    assert document["moved"] == {"plain": 1}
    assert run("get", root, "s", "k", "--json").document["timestamp"] == -1


def test_an_empty_store(run, tmp_path):
    root = tmp_path / "0_0"
    with open_state(root, engine="rocksdb") as state:
        state.open(stores.key_value("s"))
    assert run("upgrade", root, "s").out == (
        "s now has the format timestamped_headers: no row had to be moved\n"
    )


def test_a_directory_that_does_not_tell_needs_its_shape(run, tmp_path):
    root = unpack("versioned", tmp_path)
    ran = run("upgrade", root, "versioned")
    assert ran.code == 2
    assert "--shape" in ran.err
    ran = run("upgrade", root, "versioned", "--shape", "versioned", "--json")
    assert ran.document["format"] == "versioned_headers"
    ran = run("upgrade", root, "versioned", "--shape", "key-value")
    assert ran.code == 2
    assert "has the shape versioned, but key_value was passed" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("missing",), 1, "has no store 'missing'"),
        ((HALF, "--to", "plain"), 1, "upgrade cannot downgrade a store"),
        ((HALF, "--to", "nonsense"), 2, "a key-value store cannot have the format nonsense"),
        ((HALF, "--shape", "versioned"), 2, "has the shape key_value, but versioned was passed"),
    ],
)
def test_what_is_no_upgrade_is_refused(run, half, arguments, code, said):
    ran = run("upgrade", half, *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_directory_in_use_is_exit_code_3(run, half):
    with open_state(half) as state:
        state.open(HEADERS(HALF))
        assert run("upgrade", half, HALF).code == 3


def test_a_store_that_spark_wrote_is_refused(run, tmp_path):
    (tmp_path / "_kstore").mkdir()
    shard = tmp_path / "0"
    shard.mkdir()
    for path in (tmp_path, shard):
        ran = run("upgrade", path, "s")
        assert ran.code == 2
        assert "a store that Spark wrote" in ran.err


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interruption_says_how_to_go_on(run, half, monkeypatch, as_json):
    def interrupted(*_, progress, **__):
        progress(Progress("timestamped", "timestamped_headers", 40, 87))
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "upgrade_store", interrupted)
    ran = run("upgrade", half, HALF, *(["--json"] if as_json else []))
    assert ran.code == 1
    message = json.loads(ran.err)["message"] if as_json else ran.err
    assert "interrupted after 40 rows" in message
    assert "Run the same command again" in message


def test_elsewhere_than_on_a_terminal_there_is_a_line_now_and_then(run, half, monkeypatch):
    monkeypatch.setattr("kstore_core.cli.output.progress.PRINT_EVERY_S", 0.0)
    ran = run("upgrade", half, HALF)
    assert ran.err == "kstore: timestamped → timestamped_headers: 87 of about 87 rows\n"


def test_on_a_terminal_there_is_a_bar(run_on_a_terminal, half):
    ran = run_on_a_terminal("upgrade", half, HALF)
    assert ran.code == 0
    assert "timestamped → timestamped_headers" in ran.err
    assert "87/87" in ran.err
