import numpy as np
import pytest

from kstore_core.demo.check import expected
from kstore_core.demo.rates import read_rates
from kstore_core.demo.transactions import make_transactions


@pytest.fixture(scope="module")
def file():
    return read_rates()


def test_the_same_seed_makes_the_same_transactions(file):
    one, two = make_transactions(file, 5_000), make_transactions(file, 5_000)
    for column in ("currency", "time", "amount"):
        assert np.array_equal(getattr(one, column), getattr(two, column))
    assert not np.array_equal(one.time, make_transactions(file, 5_000, seed=2).time)


def test_they_are_out_of_order_and_of_every_currency(file):
    made = make_transactions(file, 20_000)
    steps = np.diff(made.time)
    assert 0.45 < np.mean(steps < 0) < 0.55
    assert set(made.currency) == set(file.rates)
    assert made.amount.min() > 0


def test_few_fall_where_their_currency_has_no_rate(file):
    made = make_transactions(file, 20_000)
    without = [
        index
        for index in range(len(made))
        if expected(file, str(made.currency[index]), int(made.time[index]))[0] is None
    ]
    assert 0 < len(without) < 100
