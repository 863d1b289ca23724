"""The catalogue of recordings: Spark indexes what was recorded, and answers by SQL. See docs/catalogue.rst.

Only `rtmprelay.flv` is used of the server: there is no Twisted in a Spark worker.
"""
