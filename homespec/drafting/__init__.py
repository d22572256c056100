"""Who proposes tokens, and how many.

Each drafter implements `contracts.Drafter`: `suffix` looks the history up, `draft_model` asks a smaller
model, `chain` asks one after the other. `control` chooses among them by measured costs; `length` holds its
arithmetic, `acceptance` what it learns, and `router` says what kind of text it is. Rollback needs no special
case: a drafter is handed the whole history each time and keeps what still holds (`prefix`).
"""
