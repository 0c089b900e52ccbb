"""The pages of results: stored rows in, the pages and their figures out.

A module for each topic. Its ``find`` returns what the rows say in a sentence or two, for the top of
the page, and its ``section`` the tables behind it. Every number is computed from stored files.
"""
