"""`nbgrader export` in the columns of `grades.csv`: points by hand and late penalties count.

nbgrader's own exporter has a row for each student and assignment, which neither Canvas nor Moodle
imports, and writes names as they are.
"""

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin

from course_lib.runs.atomic import write_whole
from grader.judge.grades import format_csv


class ClassExport(ExportPlugin):
    """Writes `grades.csv`, or the file that `--to` names."""

    def export(self, gradebook: Gradebook) -> None:
        """Write a row for each student of the gradebook.

        An empty cell was not handed in, or waits for a person; then the total is empty too.
        """
        chosen = set(self.assignment) or {one.name for one in gradebook.assignments}
        lessons = sorted(chosen)
        rows = []
        for student in sorted(gradebook.students, key=lambda one: (one.id.casefold(), one.id)):
            found = {one.assignment.name: one for one in student.submissions}
            waits = [name for name in lessons if name in found and found[name].needs_manual_grade]
            points = [
                found[name].score - found[name].late_submission_penalty
                if name in found and name not in waits
                else None
                for name in lessons
            ]
            known = [one for one in points if one is not None]
            if not self.student or student.id in map(str, self.student):
                rows.append(
                    (student.id, "", [*points, sum(known) if known and not waits else None])
                )
        write_whole(self.to or "grades.csv", format_csv(lessons, rows), sync=False)
        self.log.info("Exported %d students to %s", len(rows), self.to or "grades.csv")
