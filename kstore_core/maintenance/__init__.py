"""The functions that upgrade, migrate, verify and diagnose the stores of a state directory."""
