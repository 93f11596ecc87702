"""What sends and receives messages: producers, consumers and their parts."""
