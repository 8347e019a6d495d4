"""What both directions of a pair of clusters know together: who is active, who may write, the newest term.

A state topic has the word of one direction, as of when its cluster last answered; the other direction may
have decided since. All decisions about roles ask here. Clusters are asked only for the opposite flow's state;
nothing else here is impure.
"""
