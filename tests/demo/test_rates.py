from datetime import UTC, date, datetime

import pytest

from kstore_core.demo.rates import Quote, changelog, parse_rates, published_at, read_rates

FILE = """\
Date,AAA,BBB,CCC,
2024-03-06,1.5,N/A,7,
2024-03-05,1.25,N/A,N/A,
2024-03-04,1.5,2.5,N/A,
2024-03-01,1.25,2.25,N/A,
"""


def test_parse_rates_sorts_the_days_and_drops_the_empty_column():
    file = parse_rates(FILE, source="made up")
    assert file.days == [date(2024, 3, day) for day in (1, 4, 5, 6)]
    assert file.rates == {
        "AAA": [1.25, 1.5, 1.25, 1.5],
        "BBB": [2.25, 2.5, None, None],
        "CCC": [None, None, None, 7.0],
    }


def test_a_currency_begins_with_its_first_rate_and_ends_with_one_tombstone():
    log = list(changelog(parse_rates(FILE, source="made up")))
    assert [quote for quote in log if quote.currency == "BBB"] == [
        Quote("BBB", date(2024, 3, 1), 2.25),
        Quote("BBB", date(2024, 3, 4), 2.5),
        Quote("BBB", date(2024, 3, 5), None),
    ]
    assert [quote for quote in log if quote.currency == "CCC"] == [
        Quote("CCC", date(2024, 3, 6), 7.0)
    ]
    assert len(log) == 4 + 3 + 1


def test_a_currency_that_comes_back_is_quoted_again_after_its_tombstone():
    text = "Date,AAA,\n2024-03-01,1,\n2024-03-04,N/A,\n2024-03-05,N/A,\n2024-03-06,2,\n"
    rates = [quote.rate for quote in changelog(parse_rates(text, source="made up"))]
    assert rates == [1.0, None, 2.0]


@pytest.mark.parametrize(
    ("day", "hour"), [(date(2015, 1, 15), 15), (date(2015, 7, 15), 14)], ids=["winter", "summer"]
)
def test_publication_is_at_four_in_the_afternoon_in_frankfurt(day, hour):
    moment = datetime.fromtimestamp(published_at(day) / 1000, UTC)
    assert moment == datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def test_the_installed_file_holds_27_years_of_41_currencies():
    file = read_rates()
    assert file.days[0] == date(1999, 1, 4)
    assert file.days[-1].year == 2026
    assert len(file.days) > 7000
    assert len(file.rates) == 41
    log = list(changelog(file))
    assert [quote.timestamp for quote in log] == sorted(quote.timestamp for quote in log)
    ended = {quote.currency: quote.day for quote in log if quote.rate is None}
    assert ended["EEK"] == date(2011, 1, 3)
    assert ended["ISK"] == date(2008, 12, 10)
    back = next(q.day for q in log if q.currency == "ISK" and q.day > ended["ISK"])
    assert back == date(2018, 2, 1)
