# Only other extension modules use this module: see stored_records.pxd.
