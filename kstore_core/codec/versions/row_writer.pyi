# Only for other extension modules: see row_writer.pxd.
