"""Records for which the code of a job raises an error, with `on_error="dead-letter"`.

retries   runs a failed batch again, and without its failed records after a number of attempts
search    finds these records: computes parts of the batch, until single records fail
letters   sends them to the dead letter topic
plan      the rows of the query with another source: without records, or a part of the batch
"""
