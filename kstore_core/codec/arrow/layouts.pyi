# Only other extension modules use this module: see layouts.pxd.
