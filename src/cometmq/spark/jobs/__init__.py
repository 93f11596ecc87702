"""Ready jobs on topics and stores, one a file: each reads, and leaves its result and a picture.

A job is a function of a Spark session, so that a test or a notebook calls it as the command does.
"""
