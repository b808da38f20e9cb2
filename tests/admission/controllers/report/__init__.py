"""What users and operators read."""
