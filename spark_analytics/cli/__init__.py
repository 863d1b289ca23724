"""The commands, one module each.

A module has `add_arguments(parser)` and `run(options)`, which returns the exit status. It imports no Spark before
`run` needs it: a question that Parquet alone can answer must not wait for Java.
"""
