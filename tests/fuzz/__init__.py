"""Decoders, fed with bytes that nobody wrote: a crash, an odd error or a lie is a fault.

`make fuzz` runs ten million inputs through atheris, which is guided by the coverage of the plain
decoders in tests/reference; `test_fuzz.py` runs a minute's worth.
"""
