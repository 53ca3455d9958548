"""The `course` command. Subcommands import what they need when they run, so `--help` is instant."""

import argparse
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from grader.course import ROOT


def main(argv: list[str] | None = None) -> int:
    """Parse, run, and turn a ValueError into one line on stderr and exit status 2."""
    args = parser().parse_args(argv)
    module, _, function = args.run.partition(":")
    try:
        status = getattr(import_module(module), function)(args) or 0
        sys.stdout.flush()  # a reader that has left is met here, not when the interpreter ends
        return status
    except BrokenPipeError:  # `course ... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + 13  # what a shell says of a program that SIGPIPE has ended
    except (ValueError, OSError) as problem:
        print(f"course {args.command}: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """All subcommands with their options; `run` names the function that does the work."""
    top = argparse.ArgumentParser(
        prog="course", description="Build distributed LLM training by hand."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run, root=ROOT)
        return added

    lab = command("lab", "course_lib.lab.jupyter:run", "JupyterLab, open on a lesson")
    lab.add_argument(
        "lesson", nargs="?", default="00_start", help='"01", "rmsnorm" or "01_rmsnorm"'
    )
    lab.add_argument("--port", type=int, default=8888, help="first port to try (default 8888)")
    lab.add_argument("--ip", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    lab.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    doctor = command(
        "doctor", "grader.cli:run_doctor", "what runs on this machine and what does not"
    )
    doctor.add_argument("--json", action="store_true", help="the same as one JSON object")
    doctor.add_argument(
        "--sandbox", action="store_true", help="attack the grader's confinement, and say what held"
    )
    checked = command(
        "check", "course_lib.lab.terminal:check", "check an exercise without a notebook"
    )
    checked.add_argument("id", help="exercise id, such as rmsnorm")
    checked.add_argument(
        "--file", type=Path, help="file that holds the answer (default: your notebook)"
    )
    checked.add_argument(
        "--confidence", type=int, metavar="N", help="how sure you are, 1 (a guess) to 5 (certain)"
    )
    hinted = command("hint", "course_lib.lab.terminal:hint", "the next hint of an exercise")
    hinted.add_argument("id", help="exercise id")
    hinted.add_argument("level", nargs="?", type=int, choices=(1, 2, 3), help="open this hint now")
    hinted.add_argument("--solution", action="store_true", help="the library's own code instead")
    _add_ledger(command)
    reviewed = command("review", "course_lib.lab.reviews.asking:run", "questions that are due")
    reviewed.add_argument("--list", action="store_true", help="what is due and when; ask nothing")
    reviewed.add_argument("--limit", type=int, metavar="N", help="at most N questions")
    reset = command(
        "reset", "grader.answers:run_reset", "a lesson back to its stub; the old one is kept"
    )
    reset.add_argument("lesson", help='"01", "rmsnorm" or "01_rmsnorm"')
    update = command("update", "grader.answers:run_update", "carry your answers into this release")
    update.add_argument("--from", dest="source", type=Path, help="folder with the older notebooks")
    journal = command("journal", "course_lib.lab.journal.command:run", "your learning journal")
    import_module("course_lib.lab.journal.command").add_arguments(journal)
    built = command(
        "build", "grader.cli:run_build", "write notebooks, solutions and grader sources"
    )
    built.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when one is stale"
    )
    built.add_argument(
        "--add", action="store_true", help="add the lines that are missing beside a lesson"
    )
    begun = command("new-lesson", "grader.new_lesson:run", "begin a lesson: every file it needs")
    begun.add_argument("name", metavar="NAME", help="as in grad_norm; its number is put before it")
    begun.add_argument("--exercise", required=True, metavar="ID", help="id of its exercise")
    begun.add_argument(
        "--module", default="", metavar="M", help="new module (default course_lib.training.NAME)"
    )
    begun.add_argument("--after", default="", metavar="LESSON", help="default: the last lesson")
    book = command("book", "grader.book:run", "build the static site")
    book.add_argument("--serve", action="store_true", help="serve it on this machine afterwards")
    book.add_argument("--public", action="store_true", help="without your journal's chapter")
    graded = command("grade", "grader.judge.batch:run", "judge notebooks, without a course folder")
    graded.add_argument("path", nargs="+", type=Path, help="notebooks, or folders of notebooks")
    graded.add_argument("--json", action="store_true", help="one JSON object per notebook")
    graded.add_argument(
        "--workers", type=int, metavar="N", help="judges side by side (default: one a core)"
    )
    graded.add_argument(
        "--out",
        type=Path,
        default=Path("grades.jsonl"),
        help="results file; what is in it is not graded again (default grades.jsonl)",
    )
    graded.add_argument(
        "--watch", action="store_true", help="go on with what arrives there, until Ctrl-C"
    )
    graded.add_argument("--seed", type=int, help="draw the inputs of the checks from this seed")
    graded.add_argument(
        "--budget",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds an exercise may compute (default 10); in proportion where its check takes longer",
    )
    graded.add_argument("--unsafe", action="store_true", help="run answers without a sandbox")
    graded.add_argument("--dask", action="store_true", help="on a Dask cluster on this machine")
    graded.add_argument("--scheduler", metavar="A", help="on a Dask cluster, as tcp://host:port")
    launched = command(
        "launch", "course_lib.lab.launch.terminal:run", "a script on several ranks, watched"
    )
    launched.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    launched.add_argument("--ranks", help="a number, gpu, cpu or auto (default auto)")
    launched.add_argument("--limit", metavar="S", help="seconds after which it is ended")
    launched.add_argument("script", metavar="SCRIPT", help="file that every rank runs")
    launched.add_argument("arguments", nargs="...", metavar="...", help="options of the script")
    bench = command("bench", "course_lib.lab.bench:run", "measure something on this machine")
    bench.add_argument("name", nargs="?", metavar="NAME", help="which benchmark; none lists them")
    bench.add_argument("options", nargs=argparse.REMAINDER, help="its options, --help among them")
    report = command("report", "grader.judge.report:run", "one page on a class's results")
    report.add_argument(
        "results", nargs="?", type=Path, default=Path("grades.jsonl"), help="from `course grade`"
    )
    report.add_argument("--html", type=Path, default=Path("report.html"), help="page to write")
    report.add_argument(
        "--csv",
        type=Path,
        help="file to write for Canvas, Moodle or a spreadsheet (default grades.csv; "
        "class.csv in nbgrader's folder, whose export is grades.csv)",
    )
    report.add_argument(
        "--feedback", type=Path, metavar="FOLDER", help="write a page for each student there"
    )
    return top


def _add_ledger(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    """`course ledger` with its own subcommands, and `course end-session`."""
    room = "course_lib.lab.ledger"
    ended = command("end-session", f"{room}.ending:run", "what this session came to, and its end")
    ended.add_argument("--note", metavar="TEXT", help="your sentence about it; else it is asked")
    ledger = command("ledger", f"{room}.terminal:run", "what you know, what is due, blind spots")
    ledger.add_argument("--html", type=Path, metavar="FILE", help="write it as one page")
    inside = ledger.add_subparsers(dest="action", metavar="ACTION")
    rebuilt = inside.add_parser("rebuild", help="learning/learning_ledger.md from the record")
    rebuilt.set_defaults(run=f"{room}.terminal:rebuild")
    forgot = inside.add_parser("forget", help="remove the record; asks first")
    forgot.set_defaults(run=f"{room}.forgetting:run")
    forgot.add_argument("--everything", action="store_true", help="what you wrote in it too")
    forgot.add_argument("--yes", action="store_true", help="do not ask")
    exported = inside.add_parser("export", help="the record for another program")
    exported.set_defaults(run=f"{room}.exports:run")
    exported.add_argument("format", choices=("anki", "csv"))
    exported.add_argument("file", nargs="?", type=Path, help="default: in learning/export")


def run_doctor(args: argparse.Namespace) -> int:
    """`course doctor`, of the machine or with `--sandbox` of the grader's confinement."""
    if args.sandbox:
        from grader.judge.sandbox import run
    else:
        from course_lib.lab.doctor import run
    return run(args)


def run_build(args: argparse.Namespace) -> int:
    """`course build [--check]`: 0 when the files are current or written and nothing is to do.

    1 when a generated file is stale, when something beside a lesson is missing, or for a TODO.
    """
    from grader import answers, places, views
    from grader.lesson import lessons

    if args.add:
        for edit in places.add_missing(args.root, lessons(args.root)):
            print(f"added to {edit.path}, line {edit.line + 1 - edit.instead}: {edit.why}")
    left = [str(edit) for edit in places.find_missing(args.root, lessons(args.root))]
    left += places.find_todos(args.root)
    try:
        stale = views.build(args.root, check=True)
        if not args.check:
            for path in stale:
                if path.parent.name == "notebooks" and path.exists() and answers.has_work(path):
                    print(f"{path.name} has answers: a copy is {answers.keep_copy(path)}")
            if stale:
                views.build(args.root)
    finally:
        for line in left:
            print(line, file=sys.stderr)
    paths = [str(path.relative_to(args.root)) for path in stale]
    if args.check and paths:
        print("stale: " + ", ".join(paths) + "\nrun: course build", file=sys.stderr)
    elif args.check:
        print("all generated files are current")
    else:
        print("\n".join([f"wrote {len(paths)} files", *(f"  {path}" for path in paths)]))
    if left:
        print(f"{len(left)} lines are missing or to do, as said above", file=sys.stderr)
    return 1 if left or (args.check and paths) else 0


if __name__ == "__main__":
    sys.exit(main())
