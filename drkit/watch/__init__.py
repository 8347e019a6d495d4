"""`drkit watch` and `drkit fence-agent`: detection at work, and what it may set off."""
