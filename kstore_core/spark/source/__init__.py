"""``format("kstore")``: the data source with which Spark reads and writes stores."""
