"""Messages that the broker stores again later: delays, retries and transactions."""
