"""Studies: methods side by side, from calibration draws to rows and summaries.

A *study* yields draws. A *draw* has the calibration scores, of shape (examples,), the task of each,
and new tasks. A new task is a `ScoredTask`: the score of every label for each of its n test
examples, of shape (n, classes), the scores of their true labels, of shape (n,), and those of some
labelled examples that only PS-Test may use. `run_study` runs every *method* on every draw and
returns `Rows`, one for each method, draw and new task; `summarise` makes a table of them.

`PoolStudy` is the study of a learner on your own data, `SyntheticStudy` one that needs no data.
"""
