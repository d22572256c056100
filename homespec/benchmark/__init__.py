"""Paired measurements of plain and speculative decoding under equal conditions: what `homespec bench` runs.

`scenarios` has the prompts and `arms` who answers them. `runner` opens one target after the other; `turns`
lets all arms answer each prompt, `measuring` makes a record (`records`) of each reply, `state` and `models`
make sure that the arms meet equal conditions, and `exactness` looks at where texts part. `results` reads the
records back; `figures` and `cells` are the numbers made of them, with the intervals of `statistics`.
`summary`, `quick` and `compare` show them in a terminal; a page starts in `report.write_report`.

May import engine and everything below it, and rich. matplotlib is optional, imported on demand in `plots`.
"""
