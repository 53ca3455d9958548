"""The learner's journal: `learning/journal/YYYY-MM-DD-slug.md`, one file per thing understood.

    new        an entry with twenty sections, filled with what the course knows
    lint       what is missing, wrong or does not add up in an entry
    template   which sections, in which order; changed by the learner and by feedback
    search, index, export    over all entries
    assistant  the same structure as files for a coding assistant

An entry is written by the course once, when it is made. From then on it is the learner's: nothing
here ever writes to it again.
"""
