"""Reviews: short questions that come back when they are about to be forgotten.

What is not here: how a lesson writes its questions (grader/review_items.py). Begin with `items`,
the questions with their variants; the record says when each is due (`schedule`) and which are asked
today (`queue`). `course review` asks in a terminal (`asking`), `review()` in a notebook
(`notebook`).
"""
