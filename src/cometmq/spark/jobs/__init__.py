"""Ready-made jobs on topics and store files, one per module. Each writes a result and a chart.

A job is a function of a Spark session, so that tests and notebooks call it like the command does.
"""
