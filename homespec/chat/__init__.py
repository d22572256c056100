"""The conversation on a terminal.

State is `homespec.sessions`, pure and on disk. Around it: what a reply looks like (`inline`, `lines`, `region`,
`writers`), what the user writes (`reading`, `completion`, `attachments`, `commands`), and what happens
(`chat`, `replying`, `actions`). prompt_toolkit is imported in `reading` and `completion` only, rich where
things are drawn. Start reading in `chat.py`.
"""
