"""The learning ledger: what the record of events comes to, and the page that the learner owns.

    state      everything, rebuilt from the events       page       learning/learning_ledger.md
    ending     the end of a session                      web        the same as one HTML page
    exports    Anki, CSV                                 forgetting removing the record

Nothing here imports torch: `course ledger` answers at once.
"""
