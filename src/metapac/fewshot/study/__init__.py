"""Studies: methods side by side, from calibration draws to rows and summaries."""
