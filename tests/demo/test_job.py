"""The whole demo, on few transactions, and its report."""

import io
import itertools
from contextlib import nullcontext

import pytest
from rich.console import Console

from kstore_core import errors
from kstore_core.cli.commands.demo import demo
from kstore_core.demo import job
from kstore_core.demo.check import Check, JoinedRow
from kstore_core.demo.job import Result, StepTime, Total
from kstore_core.demo.page import write_page
from kstore_core.demo.report import print_report


def silent(_):
    return nullcontext()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # a session of the demo's own would be that of all tests
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_the_demo_joins_every_transaction_as_the_file_says(tmp_path):
    out = tmp_path / "demo"
    result = job.run(out, silent, transactions=3_000, currency="ISK")
    assert result.check.rows == 3_000
    assert result.check.differences == []
    assert result.check.without_rate > 0
    assert sum(total.transactions for total in result.totals) == 3_000
    assert sum(total.without_rate for total in result.totals) == result.check.without_rate
    assert len(result.totals) == 41
    assert {t.currency for t in result.totals if not t.euro_at_latest} >= {"EEK", "TRL", "BGN"}
    for dark, narrow in itertools.product((False, True), repeat=2):
        picture = result.picture_of(dark=dark, narrow=narrow)
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert result.tombstones == 13
    steps = job.history(result.root, "ISK", 4)
    assert len(steps) > 4_000
    gaps = [
        one.valid_to for one, next_ in itertools.pairwise(steps) if one.valid_to != next_.timestamp
    ]
    assert len(gaps) == 1
    again = job.run(out, silent, transactions=1_000, currency="USD")
    assert again.check.differences == []


def test_a_directory_that_is_not_the_demos_is_left_alone(tmp_path):
    (tmp_path / "precious").touch()
    with pytest.raises(errors.StateError, match="not the directory of an earlier demo"):
        job.run(tmp_path, silent)
    assert (tmp_path / "precious").exists()


def test_an_unknown_currency_lists_those_there_are(tmp_path):
    with pytest.raises(errors.SpecError, match="AUD, BGN"):
        job.run(tmp_path / "demo", silent, currency="XXX")
    assert not (tmp_path / "demo").exists()


def made_up(tmp_path, **changes):
    row = JoinedRow("CHF", 1_421_250_000_000, 12.5, 1.25, [("source", b"ECB"), ("empty", None)])
    result = Result(
        tmp_path,
        tmp_path / "rates",
        tmp_path / "CHF.png",
        source="made up",
        java="Spark on Java",
        currency="CHF",
        days=2,
        currencies=2,
        tombstones=1,
        steps=[StepTime("restore", 1000, 2.0), StepTime("join", 50, 0.5)],
        totals=[Total("CHF", 30, 1, 100.0, 90.0), Total("EEK", 20, 0, 7.0, 0.0)],
        rows=[row, JoinedRow("EEK", 0, 1.0, None, None)],
        check=Check(50, 1, []),
    )
    for name, value in changes.items():
        setattr(result, name, value)
    return result


def report(result):
    console = Console(width=120, file=io.StringIO())
    print_report(console, result)
    return console.file.getvalue()


def test_the_report_tells_everything(tmp_path):
    text = report(made_up(tmp_path))
    words = " ".join(text.split())
    assert "17.00 euro: 10.00 where rates have moved, and 7.00 (41%) of 1 currencies" in words
    assert "sum of absolute errors per currency" in words
    assert "Speed of one cold run" in text
    assert "none any more" in text
    assert "source=ECB" in text
    assert "500" in text  # rows a second of the first step
    assert "all agree (1 of them without a rate)" in text
    assert str(tmp_path / "index.html") in text
    for command in ("inspect", "get", "history", "dump"):
        assert f"kstore {command} {tmp_path / 'rates'}" in text


def test_the_page_tells_everything_and_escapes_it(tmp_path):
    made = made_up(tmp_path, source="<b>made up</b> & more", moment=1_421_334_000_000)
    write_page(made)
    text = made.page.read_text(encoding="utf-8")
    assert "&lt;b&gt;made up&lt;/b&gt; &amp; more" in text
    assert '<img src="CHF.png"' in text
    assert "€17</b>sum of absolute errors per currency" in text
    assert "41% of it from currencies that ended" in text
    assert "in one cold run" in text
    assert (
        '(max-width: 700px) and (prefers-color-scheme: dark)" srcset="CHF-narrow-dark.png"' in text
    )
    assert "50</b>rows looked up in the bank" in text
    assert "source=ECB, empty=" in text
    assert "none any more" in text
    assert f"kstore inspect {made.root}" in text
    assert ".option(&quot;as_of&quot;, &quot;2015-01-15T15:00Z&quot;)" in text
    write_page(made_up(tmp_path, check=Check(50, 1, ["one"])))
    assert "1 of 50</b>rows differ" in made.page.read_text(encoding="utf-8")


def test_the_report_names_rows_that_differ(tmp_path):
    text = report(made_up(tmp_path, check=Check(50, 1, ["CHF at 0: joined so, the file has so"])))
    assert "1 of 50 rows differ" in text
    assert "CHF at 0" in text


def test_a_difference_is_exit_code_1(tmp_path, monkeypatch):
    from click.testing import CliRunner

    check = Check(1, 0, ["one"])
    monkeypatch.setattr(job, "run", lambda *_, **__: made_up(tmp_path, check=check))
    assert CliRunner().invoke(demo, []).exit_code == 1
    monkeypatch.setattr(job, "run", lambda *_, **__: made_up(tmp_path))
    ran = CliRunner().invoke(demo, [])
    assert (ran.exit_code, ran.stderr) == (0, "")
