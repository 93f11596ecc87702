"""Prerequisites of the pipeline: Java, Python, a Spark session, and the doctor."""
