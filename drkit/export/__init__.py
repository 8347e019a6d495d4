"""The export: records that only the old primary has, in files, with a manifest that shows every alteration.

A Spark batch job writes them, another one reads them back. Nothing is written to a cluster here, and which
records are worth an export is not decided here.
"""
