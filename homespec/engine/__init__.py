"""Opened models and the replies they give.

`opening` turns settings into an opened target, a drafter and a plan; `generation` runs one request;
`session` keeps a conversation.
"""

from homespec.engine.engine import Engine
from homespec.engine.generation import Generation
from homespec.engine.session import Session

__all__ = ["Engine", "Generation", "Session"]
