# Only for other extension modules: see version_runs.pxd.
