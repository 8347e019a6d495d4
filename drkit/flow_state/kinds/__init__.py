"""The kinds of records in a flow's state, one file for each subject.

Each kind declares its key and its fields with the codec. Pure: nothing is read or written here, and what a
record means to a running flow is not decided here.
"""
