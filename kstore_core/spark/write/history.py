"""The conversion of a history, whose rows have an end of validity, to a changelog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kstore_core.errors import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["END", "log_of_history"]

END = "valid_to"
"""The column with the exclusive end of a version's validity. Null means that there is no end."""


def log_of_history(df: DataFrame) -> DataFrame:
    """Return the changelog of a history in the form that ``read_store(history=True)`` returns.

    If a version ends before the next version of its key begins, or if no version follows, the
    changelog has a tombstone at the end of the version. The column ``valid_to`` is removed. The
    records are applied in the order of their times.

    Parameters
    ----------
    df : DataFrame
        A DataFrame with the columns ``key``, ``value``, ``timestamp`` and ``valid_to``.

    Raises
    ------
    SpecError
        A version ends before it begins, or after the next version of its key begins; a version has
        no end, but another version follows; the two times have different types; or the DataFrame
        has offsets. The check of the times reads the DataFrame once.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    types = dict(df.dtypes)
    if types.get("timestamp") != types[END]:
        raise SpecError(
            f"the column {END!r} is {types[END]}, but the column 'timestamp' is "
            f"{types.get('timestamp')}; give both the same type"
        )
    if "offset" in types or "arrival" in types:
        raise SpecError(
            f"the DataFrame has the column {END!r} of a history and the column 'offset' or "
            f"'arrival' of a changelog. If its rows are a history, drop 'offset' and 'arrival'; if "
            f"they are a changelog, drop {END!r}"
        )
    follows = F.lead("timestamp").over(Window.partitionBy("key").orderBy("timestamp"))
    spans = df.withColumn("__next", follows)
    begin, end, following = F.col("timestamp"), F.col(END), F.col("__next")
    wrong = (end <= begin) | (end.isNull() & following.isNotNull()) | (end > following)
    fault = spans.where(wrong).select("key", "timestamp", END, "__next").head()
    if fault is not None:
        if fault[END] is not None and fault[END] <= fault.timestamp:
            why = "but a version must end after it begins"
        elif fault[END] is None:
            why = (
                "which only the last version may have, but another version begins at "
                f"{fault['__next']}"
            )
        else:
            why = f"but the next version begins before that, at {fault['__next']}"
        raise SpecError(
            f"the version of the key {fault.key!r} from {fault.timestamp} has the {END} "
            f"{fault[END]}, {why}. Correct the rows, or drop the column {END!r}"
        )
    versions = spans.drop(END, "__next")
    gaps = spans.where(end.isNotNull() & (following.isNull() | (following > end)))
    ends = gaps.withColumn("timestamp", end).drop(END, "__next")
    ends = ends.withColumn("value", F.lit(None).cast(df.schema["value"].dataType))
    if "headers" in types:
        ends = ends.withColumn("headers", F.array().cast(types["headers"]))
    order = F.col("timestamp") if types["timestamp"] == "bigint" else F.unix_micros("timestamp")
    return versions.unionByName(ends).withColumn("arrival", order)
