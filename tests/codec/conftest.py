"""Settings of the codec's tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("codec", deadline=None)  # the first call of pyarrow takes its time
settings.load_profile("codec")
