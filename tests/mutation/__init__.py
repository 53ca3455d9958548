"""Wrong answers made by machine: every small change of a right answer, judged by its suite."""
