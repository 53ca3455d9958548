"""Lighthouse on one page: the pinned npm package, driven by node, with the tests' own Chromium."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass

from chromium import BrowserMissing, find_chromium, node, node_modules
from harness import OFFLINE_ARGS

CATEGORIES = ("performance", "accessibility", "best-practices")
PATIENCE_S = 240


@dataclass(frozen=True)
class Audit:
    """Scores from 0 to 100 by category; for what is below, the audits that cost points."""

    scores: dict[str, int]
    lost: dict[str, list[str]]


def audit(address: str, *categories: str) -> Audit:
    """Opens the page in a fresh browser, as on a phone with a slow network, and scores it.

    Raises BrowserMissing when Lighthouse cannot run here, and RuntimeError when it fails on a page.
    """
    script = node_modules() / "lighthouse" / "cli" / "index.js"
    if not script.is_file():
        raise BrowserMissing("lighthouse is not among the npm packages")
    chrome = find_chromium()
    flags = " ".join(["--headless", *OFFLINE_ARGS, *chrome.args])
    command = [
        node(), str(script), address, "--quiet", "--output=json", "--output-path=stdout",
        "--no-enable-error-reporting", f"--only-categories={','.join(categories or CATEGORIES)}",
        f"--chrome-flags={flags}",
    ]  # fmt: skip
    env = {**os.environ, **chrome.env, "CHROME_PATH": str(chrome.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"lighthouse failed on {address}: {done.stderr[-600:]}")
    return read(json.loads(done.stdout))


def read(report: dict) -> Audit:
    """Scores and lost points of a report; an audit that could not run counts as lost."""
    if problem := report.get("runtimeError"):
        raise RuntimeError(f"lighthouse: {problem}")
    scores, lost = {}, {}
    for name, category in report["categories"].items():
        audits = [(ref["weight"], report["audits"][ref["id"]]) for ref in category["auditRefs"]]
        scores[name] = round(100 * (category["score"] or 0))
        lost[name] = [
            f"{found['id']} {found['score']} {found.get('displayValue', '')} "
            f"{found.get('errorMessage', '')}".strip()
            for weight, found in audits
            if weight
            and found["score"] is not None
            and found["score"] < 1
            or found["scoreDisplayMode"] == "error"
        ]
    return Audit(scores, lost)
