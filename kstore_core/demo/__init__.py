"""The main job on real data: 27 years of exchange rates, restored by Spark and joined as of time.

``kstore demo`` runs it. Read :mod:`kstore_core.demo.job` to see how it is done with kstore's public
names; the other modules here prepare its input, check its result and show it.
"""
