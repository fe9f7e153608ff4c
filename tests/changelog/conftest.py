"""Settings of the changelog's tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("changelog", deadline=None)  # files, and machines that are busy
settings.load_profile("changelog")
