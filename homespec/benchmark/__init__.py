"""Paired measurements of plain and speculative decoding: what `homespec bench` runs.

`runner` answers every prompt with every arm (`arms`) in turns and writes each reply down (`records`), after
`state` has made sure that the arms meet equal conditions; `exactness` looks at where texts part.
`statistics` has ratios and their intervals, `summary` makes figures of the records, `tables` and `quick` show
them to people, and `compare` sets two files side by side. It may import the engine and all below it.

`report` makes a page of a results file: `results` reads its lines, `figures` and `cells` turn them into numbers
that remember their lines, `page` and `plots` show those.
"""
