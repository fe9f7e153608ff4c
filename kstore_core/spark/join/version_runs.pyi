# Only other extension modules can call the functions of this module; see version_runs.pxd.
