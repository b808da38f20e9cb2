"""What all rules of the webhook share."""
