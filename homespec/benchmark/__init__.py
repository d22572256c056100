"""Paired measurements of plain and speculative decoding: what `homespec bench` runs.

`runner` answers every prompt with every arm (`arms`) in turns and writes each reply down (`records`), after
`state` has made sure that the arms meet equal conditions; `exactness` looks at where texts part.
`statistics` has ratios and their intervals, `summary` makes figures of the records, `tables` and `quick` show
them to people, and `compare` sets two files side by side. It may import the engine and all below it.

`results` reads the lines of a results file, `figures` and `cells` turn them into numbers that remember their
lines. `report` makes a page of those: `headline`, `charts` and `page` say what is on it, `plots` draws.
"""
