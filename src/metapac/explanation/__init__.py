"""Guarantees explained to people who are not statisticians, in the words of their field.

Every number is a bound that holds as it is read: percentages are exact, and thresholds are rounded
down, so that whoever applies the rounded number keeps at least as many labels.
"""
