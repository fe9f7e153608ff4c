from datetime import date

from kstore_core.demo.check import JoinedRow, check_rows, expected
from kstore_core.demo.rates import parse_rates, published_at

FILE = parse_rates("Date,AAA,\n2024-03-01,1.25,\n2024-03-04,1.5,\n2024-03-05,N/A,\n", source="-")
FRIDAY, MONDAY, TUESDAY = (published_at(day) for day in FILE.days)


def row(time, rate, day):
    headers = day and [("publication-date", day.encode()), ("currency", b"AAA")]
    return JoinedRow("AAA", time, 10.0, rate, headers)


def test_a_rate_counts_from_its_publication_until_the_next():
    assert expected(FILE, "AAA", FRIDAY - 1) == (None, None)
    assert expected(FILE, "AAA", FRIDAY) == (1.25, date(2024, 3, 1))
    assert expected(FILE, "AAA", MONDAY - 1) == (1.25, date(2024, 3, 1))
    assert expected(FILE, "AAA", MONDAY) == (1.5, date(2024, 3, 4))
    assert expected(FILE, "AAA", TUESDAY) == (None, None)


def test_rows_that_agree():
    check = check_rows(
        FILE,
        [row(FRIDAY, 1.25, "2024-03-01"), row(MONDAY, 1.5, "2024-03-04"), row(TUESDAY, None, None)],
    )
    assert (check.rows, check.without_rate, check.differences) == (3, 1, [])


def test_rows_that_differ_in_rate_or_headers_are_named():
    check = check_rows(
        FILE,
        [row(MONDAY, 1.25, "2024-03-04"), row(MONDAY, 1.5, "2024-03-01"), row(TUESDAY, 1.5, None)],
    )
    assert len(check.differences) == 3
    assert "1.25" in check.differences[0]
    assert "2024-03-01" in check.differences[1]
