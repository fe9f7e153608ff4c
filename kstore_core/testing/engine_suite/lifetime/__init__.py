"""Tests that open, close, copy and share whole databases."""
