"""The names of the storage options of ``hdfs://`` addresses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from kstore_core.errors import SpecError

__all__ = ["ARGUMENTS", "check_options"]

ARGUMENTS = ("config_dir", "kerberos_principal", "kerberos_keytab", "kerberos_cache")
"""The options that are arguments of ``hdfs_native.Client``. Other options are Hadoop's settings."""

_SETTINGS = (
    "fs.defaultFS",
    "fs.viewfs.mounttable.<cluster>.link.<path>",
    "fs.viewfs.mounttable.<cluster>.linkFallback",
    "dfs.nameservices",
    "dfs.ha.namenodes.<nameservice>",
    "dfs.namenode.rpc-address",
    "dfs.namenode.rpc-address.<nameservice>",
    "dfs.namenode.rpc-address.<nameservice>.<namenode>",
    "dfs.client.failover.max.attempts",
    "dfs.client.failover.sleep.base.millis",
    "dfs.client.failover.sleep.max.millis",
    "dfs.client.failover.proxy.provider.<nameservice>",
    "dfs.client.failover.random.order",
    "dfs.client.failover.random.order.<nameservice>",
    "dfs.client.failover.resolve-needed",
    "dfs.client.failover.resolve-needed.<nameservice>",
    "dfs.client.failover.resolver.useFQDN",
    "dfs.client.failover.resolver.useFQDN.<nameservice>",
    "dfs.client.block.write.replace-datanode-on-failure.enable",
    "dfs.client.block.write.replace-datanode-on-failure.policy",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort",
    "dfs.client.socket-timeout",
    "dfs.client.use.datanode.hostname",
    "dfs.data.transfer.protection",
    "dfs.user.home.dir.prefix",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""The settings that hdfs-native reads, and ``dfs.nameservices``, which belongs to these settings in
Hadoop's files. A part in angle brackets stands for any name.
"""

_PLACEHOLDER = re.compile(r"<(\w+)>")


def _pattern(setting: str) -> str:
    """Return the regular expression of a setting. Only a path may contain a dot."""
    parts = _PLACEHOLDER.split(setting)
    for place in range(0, len(parts), 2):
        parts[place] = re.escape(parts[place])
    for place in range(1, len(parts), 2):
        parts[place] = ".+" if parts[place] == "path" else r"[^.\s]+"
    return "".join(parts)


_KNOWN = re.compile("|".join(map(_pattern, _SETTINGS)))


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a SpecError if an option of an ``hdfs://`` address is unknown or is not text."""
    for name, value in options.items():
        if name not in ARGUMENTS and not _KNOWN.fullmatch(name):
            near = difflib.get_close_matches(name, (*ARGUMENTS, *_SETTINGS), n=1)
            advice = f"Do you mean {near[0]!r}? " if near else ""
            raise SpecError(
                f"storage_options contains {name!r}, which is not an option of hdfs:// addresses. "
                f"{advice}The options are {', '.join(ARGUMENTS)}, and the settings of Hadoop that "
                "hdfs-native reads, such as 'dfs.ha.namenodes.<nameservice>'; docs/spark-roots.md "
                "lists these settings"
            )
        if not isinstance(value, str):
            raise SpecError(
                f"the storage option {name!r} is {type(value).__name__}, but must be text"
            )
