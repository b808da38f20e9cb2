"""Placement constraints: shaping.py with its parts: what a level asks (level_rule), equal domains (kinds), which shares
can be best (plans), who gets them (split), and what is done when the budget is spent (rough)."""
