# Only other extension modules use this module: see row_writer.pxd.
