"""Random topologies in Kafka's own test driver and in kstore's, from new seeds each time."""

from __future__ import annotations

import random

import pytest

from tests.interop.harness import Harness
from tests.processing.changelogs import assert_equal_results
from tests.processing.drawn import draw, draw_nodes
from tests.processing.programs import run, topology_of

SEED = random.SystemRandom().randrange(1 << 40)
PROGRAMS = 40


@pytest.mark.parametrize("number", range(4))
def test_programs_give_the_same(kafka: Harness, number: int) -> None:
    for seed in range(SEED + number * PROGRAMS, SEED + (number + 1) * PROGRAMS):
        program = draw(seed)
        try:
            assert_equal_results(program, kafka.call("run_topology", program=program), run(program))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_topologies_are_described_alike(kafka: Harness) -> None:
    for seed in range(SEED, SEED + 5 * PROGRAMS):
        for program in (draw(seed), draw_nodes(seed)):
            text = kafka.call("describe_topology", program=program)
            assert topology_of(program).describe() == text, f"seed {seed}"
