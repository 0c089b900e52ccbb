"""CDC Heart: the BRFSS survey by state and year."""
