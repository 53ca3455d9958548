"""Wrong answers written as edits of right ones: where they fit, and what is said when they do not."""

import pytest

from tests import answers

RIGHT = """# %% right in one line
def double(x):
    return x + x

# %% right with a name
def double(x):
    y = x

    if y:
        y = y + y
        return y
    return y

"""


@pytest.fixture
def read_last(monkeypatch, tmp_path):
    """The text of the last answer in a file that ends with these cells."""

    def read(cells: str) -> str:
        (tmp_path / "double.py").write_text(RIGHT + cells, encoding="utf-8")
        monkeypatch.setattr(answers, "FOLDER", tmp_path)
        return answers.answers("double")[-1].text

    return read


NAMED = "def double(x):\n    y = {y}\n\n    if y:\n{inside}        return y\n    return y\n"


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (
            "# %% wrong SUM two places\n- y = x\n+ y = 2 * x\n\n- y = y + y\n+ y += 1\n",
            NAMED.format(y="2 * x", inside="        y += 1\n"),
        ),
        (
            "# %% wrong SUM a line less\n- y = y + y\n  return y\n",
            NAMED.format(y="x", inside=""),
        ),
        (
            "# %% wrong SUM two lines more\n  if y:\n+     y += 1\n+ \n+     y += 2\n",
            NAMED.format(y="x", inside="        y += 1\n\n        y += 2\n        y = y + y\n"),
        ),
        (
            "# %% wrong SUM of another | of: in one line\n- return x + x\n+ return x\n",
            "def double(x):\n    return x\n",
        ),
        (
            "# %% wrong SUM whole\ndef double(x):\n    return -x\n",
            "def double(x):\n    return -x\n",
        ),
    ],
)
def test_an_edit_is_made_where_it_fits(read_last, cell, text):
    assert read_last(cell) == text


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("# %% wrong SUM name\n- y = z\n+ y = 1\n", "found 0"),
        ("# %% wrong SUM name\n- return y\n+ return x\n", "found 2"),
        ("# %% wrong SUM name\n  y = x\n    if y:\n+ return x\n", "found 0"),
        ("# %% wrong SUM name\n+ return x\n", "found 0"),
        ("# %% wrong SUM name | of: another\n- y = x\n", "got another"),
    ],
)
def test_an_edit_that_does_not_fit_once_is_named(read_last, cell, found):
    with pytest.raises(ValueError, match=rf"double.py:14: SUM name: expected .*{found}"):
        read_last(cell)
