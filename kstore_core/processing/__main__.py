"""The command ``python -m kstore_core.processing run module:topology``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from kstore_core.errors import KStoreError, SpecError
from kstore_core.processing.topology import Topology


def main(given: Sequence[str] | None = None) -> int:
    """Run a topology on Kafka until SIGTERM or SIGINT. Return the exit code."""
    from kstore_core.processing.kafka import KafkaRunner

    arguments = _parser().parse_args(given)
    try:
        runner = KafkaRunner(
            topology_at(arguments.topology),
            servers=arguments.bootstrap_servers,
            application_id=arguments.application_id,
            state=arguments.state,
            guarantee=arguments.guarantee,
            engine=arguments.engine,
            commit_interval_ms=arguments.commit_interval_ms,
            settings=dict(map(_setting, arguments.setting)),
            reset=arguments.reset,
            timeout_s=arguments.timeout,
            session_timeout_s=arguments.session_timeout,
            partition_time=arguments.partition_time,
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: runner.stop())
        runner.run()
    except KStoreError as error:
        text = "\n".join([f"error: {error}", *getattr(error, "__notes__", ())])
        sys.stderr.write(f"{text}\n")
        return 1
    return 0


def topology_at(name: str) -> Topology:
    """Return the topology at ``module:attribute``, or the topology that a function there returns.

    Raises
    ------
    SpecError
        The module or the attribute does not exist, or the attribute is not a topology.
    """
    module, _, attribute = name.partition(":")
    if not attribute:
        raise SpecError(f"{name!r} must be module:attribute, such as orders:topology")
    sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module and not module.startswith(f"{error.name}."):
            raise
        raise SpecError(
            f"there is no module {module!r}; run the command in the directory of the module"
        ) from error
    except AttributeError as error:
        raise SpecError(f"the module {module!r} has no attribute {attribute!r}") from error
    if not isinstance(found, Topology) and callable(found):
        found = found()
    if not isinstance(found, Topology):
        raise SpecError(f"{name} is not a Topology, but {found!r}")
    return found


def _setting(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise SpecError(f"--setting {text!r} must be NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kstore_core.processing")
    run = parser.add_subparsers(required=True).add_parser(
        "run", help="run a topology on Kafka until SIGTERM or SIGINT"
    )
    add = run.add_argument
    add("topology", help="the topology, or a function that returns it, as module:attribute")
    add("--bootstrap-servers", required=True, help="the brokers, as host:port,host:port")
    add("--application-id", required=True, help="the consumer group and the prefix of changelogs")
    add("--state", required=True, help="the directory with the states of the tasks")
    add("--guarantee", default="at_least_once", help="at_least_once or exactly_once_v2")
    add("--engine", default="rocksdb", help="the storage engine")
    add("--commit-interval-ms", type=int, help="the time between two commits")
    add("--reset", default="earliest", help="where to begin without an offset: earliest or latest")
    add("--setting", action="append", default=[], help="NAME=VALUE of librdkafka; repeatable")
    add("--timeout", type=float, default=30, help="seconds to wait for the brokers")
    add("--session-timeout", type=float, default=45, help="seconds until a lost member is removed")
    add("--partition-time", action="store_true", help="honour the header partition-time")
    return parser


if __name__ == "__main__":
    sys.exit(main())
