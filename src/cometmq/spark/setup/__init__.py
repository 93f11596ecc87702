"""What the pipeline needs from the machine: Java, Python, and a doctor."""
