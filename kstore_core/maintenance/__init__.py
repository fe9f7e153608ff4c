"""Work on a whole state directory: upgrade, migrate, verify, doctor."""
