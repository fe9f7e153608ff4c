# Only for other extension modules: see stored_records.pxd.
