"""KV caches that outlive the process: a long conversation goes on without a new prefill."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.calibration.fingerprint import build_fingerprint, model_identity
from homespec.engine.engine import Engine
from homespec.engine.opening import OpenedModel
from homespec.errors import CacheFileError, ForeignCacheError
from homespec.sessions.kv_files import KvFiles
from homespec.units import format_bytes


@dataclass(frozen=True, slots=True)
class Resumed:
    """What was found on disk.

    Attributes:
        num_tokens: in the target's KV cache now. The next request reuses what they share with its prompt.
        notices: sentences about files that were not used.
    """

    num_tokens: int
    notices: tuple[str, ...] = ()


def keep_cache(engine: Engine, files: KvFiles, session_id: str) -> str | None:
    """Keeps the KV caches of the target, and of the draft model if one is open.

    Args:
        engine: as the conversation left it.
        files: where to.
        session_id: of the conversation.

    Returns:
        A sentence when something was not kept; None when all was.
    """
    models = {role: model for role, model in engine.opened_models.items() if model.context.num_cached_tokens}
    num_bytes = sum(model.context.num_state_bytes for model in models.values())
    if not files.make_room(num_bytes, session_id):
        return (
            f"The KV cache was not kept: it takes {format_bytes(num_bytes)}, "
            f"and all of them may take {format_bytes(files.limit_bytes)}."
        )
    for role, model in models.items():
        try:
            model.context.save(files.path(session_id, role), _owner(model))
        except CacheFileError as error:
            return error.message
    return None


def resume_cache(engine: Engine, files: KvFiles, session_id: str) -> Resumed:
    """Loads the KV caches that were kept. What is damaged is removed; what is foreign is left alone.

    Args:
        engine: what its models have cached is given up.
        files: where from.
        session_id: of the conversation.
    """
    num_tokens, notices = 0, []
    for role, model in engine.opened_models.items():
        path = files.path(session_id, role)
        try:
            found = model.context.load(path, _owner(model))
        except FileNotFoundError:
            continue
        except ForeignCacheError as error:
            notices.append(error.message)
            continue
        except CacheFileError as error:
            notices.append(error.message)
            files.discard(path)
            continue
        files.touch(path)
        if role == "target":
            num_tokens = found
    return Resumed(num_tokens, tuple(notices))


def _owner(model: OpenedModel) -> dict[str, str]:
    """Everything that the content of a KV cache depends on. The size of the context does not matter."""
    return {
        "model": model_identity(model.model.path),
        "build of llama.cpp": build_fingerprint(),
        "type of KV cache": model.context.kv_type,
        # Decides whether V is stored transposed. llama.cpp chooses by model and build.
        "flash attention": "auto",
    }
