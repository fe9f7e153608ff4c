"""The demo, a Spark job that restores 27 years of exchange rates and joins transactions with them.

The command ``kstore demo`` runs the job. Like a job of a user, :mod:`kstore_core.demo.job` uses
only public names of kstore. The other modules prepare the input of the job, and check and print the
result.
"""
