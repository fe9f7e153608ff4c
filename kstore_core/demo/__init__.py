"""The demo: 27 years of real exchange rates, restored by Spark and joined as of time.

``kstore demo`` runs it. :mod:`kstore_core.demo.job` uses only kstore's public names, as a user's
job would. The other modules prepare its input, check its result and print it.
"""
