"""The codec of drkit's own records: one line declares how a field is read and written.

A value of the wrong type or out of its range is an error with the field's name. Pure: which records exist
is not known here.
"""
