"""The report of a drill: a pydantic model with hashes, and one self-contained HTML page.

Its verdict follows from the evidence in it, so a report can be checked by anyone. Nothing is read from a
cluster here, and the page has no script.
"""
