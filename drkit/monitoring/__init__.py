"""What a replicating or watching process shows of itself: the board of its flows, and metrics.

The board collects the newest status of each flow; metrics are made from it at each scrape. No figure is
computed here that `drkit status` does not know.
"""
