"""Records what Kafka's own test driver gives for the programs of tests/processing.

``python -m tests.support.record_topologies`` makes tests/golden/topologies_<release>.jsonl.gz anew,
by the harness of tests/interop. A line is a program, the text that describes its topology, and, of
a program that runs, its outputs, changelogs and contents of stores.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import closing
from pathlib import Path

from tests.interop.harness import Harness, build
from tests.processing.drawn import draw, draw_nodes
from tests.support.places import GOLDEN

RUN, DESCRIBED = 64, 150


def main() -> None:
    with tempfile.TemporaryDirectory() as cache, closing(Harness(build(Path(cache)))) as kafka:
        release = kafka.call("version")["kafka"]
        lines = []
        for seed in range(RUN):
            program = draw(seed)
            results = kafka.call("run_topology", program=program)
            text = kafka.call("describe_topology", program=program)
            lines.append({"seed": seed, "program": program, "text": text, "results": results})
        for seed in range(DESCRIBED):
            program = draw_nodes(seed)
            text = kafka.call("describe_topology", program=program)
            lines.append({"seed": seed, "program": program, "text": text})
    written = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path = GOLDEN / f"topologies_{release}.jsonl.gz"
    path.write_bytes(gzip.compress(written.encode(), mtime=0))


if __name__ == "__main__":
    main()
