"""What users say in annotations."""
