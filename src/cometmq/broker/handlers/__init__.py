"""What a broker answers: one file per room, one row per request code in `routes.py`."""
