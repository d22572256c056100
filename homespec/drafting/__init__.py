"""Who proposes tokens, and how many.

Each drafter implements `contracts.Drafter`: `ngram` looks the history up, `draft_model` asks a smaller
model, `chain` asks one after the other. `length` decides how far to draft. Rollback needs no special case:
a drafter is handed the whole history each time and keeps what still holds (`prefix`).
"""
