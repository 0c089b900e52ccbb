"""Studies: methods side by side, from calibration draws to rows and summaries.

A *study*, such as `PoolStudy`, yields draws. A *draw* has the calibration scores, the task of each,
and new tasks, each a `ScoredTask`. `run_study` runs every *method* on every draw and returns
`Rows`, one for each method, draw and new task; `summarise` makes a table of them.
"""
