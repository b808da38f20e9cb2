"""What nobody may change who did not write it."""
