"""The store: Delta tables that change together, in one published version."""
