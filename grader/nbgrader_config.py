"""nbgrader's settings for this course: run nbgrader's commands in the folder of this file.

    cd grader
    nbgrader generate_assignment 01_rmsnorm --create
    nbgrader autograde 01_rmsnorm
    nbgrader generate_feedback 01_rmsnorm

The same by mouse: `jupyter lab` in this folder, then Nbgrader > Formgrader in its menu.

Folders, gradebook, formgrader and feedback are nbgrader's. Who decides is the judge: answers run in
a sandbox, one process each, and no kernel is started. Where a machine has no sandbox, autograding
stops and says so (`course doctor --sandbox`); it never goes on without one. With `JUDGE = False`
below it is stock nbgrader, which runs every notebook with your rights and believes what it prints.

What a learner must not see (the second, freshly drawn check) is removed from the release by
nbgrader, and from the feedback by the same preprocessor here.

A course folder of your own holds `source/`, this file and, beside it, `templates/`: paths here
start from the folder of this file, so that a copy needs no change. `templates/` keeps the pages of
feedback and of manual grading off the network; without it nbgrader's own are used, which load
MathJax from a content network.
"""

from pathlib import Path

import nbgrader

JUDGE = True

c = get_config()  # noqa: F821  provided by traitlets when it reads this file

c.CourseDirectory.course_id = "course"
c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("your code here")'}
c.ExportApp.plugin_class = "grader.judge.export.ClassExport"  # the columns of Canvas and Moodle
c.Execute.timeout = 180  # seconds a cell; lesson 06 trains for a minute
c.ExecutePreprocessor.timeout = 180
if JUDGE:
    c.Autograde.exporter_class = "grader.judge.preprocessor.SubmissionReader"
    c.Autograde.sanitize_preprocessors = [
        "grader.judge.preprocessor.TakeAnswers",
        "nbgrader.preprocessors.OverwriteKernelspec",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        "grader.judge.preprocessor.AskJudge",
        "grader.judge.preprocessor.SaveVerdicts",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.ClearHiddenTests",  # stock feedback prints the hidden check
    "nbgrader.preprocessors.GetGrades",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
# A page of feedback has no widget library: figures show their text and table instead of nothing.
c.NbConvertBase.display_data_priority = [
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "text/latex",
    "image/png",
    "image/jpeg",
    "text/plain",
]

own = Path(__file__).resolve().parent / "templates"
if own.is_dir():
    # nbgrader no longer adds its templates once this is set. Leave `template_name` alone: set
    # here, it would also replace the page of manual grading, which is of another name.
    stock = Path(nbgrader.__file__).parent / "server_extensions/formgrader/templates"
    c.HTMLExporter.extra_template_basedirs = [str(own), str(stock)]
