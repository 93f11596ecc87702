"""Messages that are stored again later: delays, retries and transactions."""
