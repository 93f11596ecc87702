"""Topics as tables: a Spark source, a sink and a scan of store files. Needs the `spark` extra."""
