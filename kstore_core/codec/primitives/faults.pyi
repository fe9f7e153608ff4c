# Only for other extension modules: see faults.pxd.
