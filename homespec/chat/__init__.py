"""The conversation on a terminal.

State is `homespec.sessions`, pure and on disk. Around it: what a reply looks like (`inline`, `lines`,
`region`, `writers`, `figures`), what the user writes (`reading`, `editing`, `suggesting`, `attachments`), and
what happens (`chat`, `replying`, `fullness`, `commands`). prompt_toolkit is imported in `editing` only. Start
reading in `chat.py`.
"""
