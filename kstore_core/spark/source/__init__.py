"""``format("kstore")``: what Spark reads of stores and writes into them."""
