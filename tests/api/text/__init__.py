"""Small languages and bounds of text."""
