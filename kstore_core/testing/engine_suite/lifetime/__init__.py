"""Tests of whole databases, which open, close, copy and share them."""
