# Only for other extension modules: see layouts.pxd.
