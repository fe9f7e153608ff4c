# Only other extension modules use this module: see faults.pxd.
