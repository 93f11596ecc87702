"""Spark source and sink for topics, and a reader of store files. Needs the extra `spark`."""
