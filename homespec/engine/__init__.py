"""Opened models and the replies they give.

`preparing` turns settings into a plan, from headers alone, and `forecast` says how fast that will be;
`opening` opens what was planned; `corpus` finds and indexes texts for n-gram lookup. `engine.Engine` answers:
`generation` runs one request, `session` keeps a conversation, `control` and `experience` keep what was
learned about speed. `keeping` lets KV caches outlive the process; `room` and `summarizing` are for a full
context. `watchdog` and `truth` compare the plan with what happens. Nothing is imported here,
since planning must not load llama.cpp.
"""
