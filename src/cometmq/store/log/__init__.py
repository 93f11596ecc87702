"""The commit log: records of all topics, appended to files of one size."""
